package random

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gospml/gospml/internal/testroot"
)

func readJSON(t *testing.T, name string, into any) {
	t.Helper()
	b, err := os.ReadFile(testroot.Testdata("random", name))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(b, into))
}

// sha256OfInts hashes integers as little-endian int64, as the goldens do.
func sha256OfInts(a []int) string {
	h := sha256.New()
	for _, v := range a {
		h.Write(binary.LittleEndian.AppendUint64(nil, uint64(v)))
	}
	return hex.EncodeToString(h.Sum(nil))
}

func TestGoldenStream(t *testing.T) {
	var g struct {
		Random struct {
			U1200  []uint32         `json:"mt19937_seed_1200_first_uint32"`
			U999   []uint32         `json:"mt19937_seed_999_first_uint32"`
			Sample []float64        `json:"random_sample_seed_1200"`
			Perm   map[string][]int `json:"permutation_seed_1200"`
			Pi     []int            `json:"shuffle_31415926_seed_1200"`
		}
	}
	readJSON(t, "golden.json", &g)
	for seed, want := range map[uint32][]uint32{1200: g.Random.U1200, 999: g.Random.U999} {
		r := New(seed)
		require.NotEmpty(t, want)
		for i, w := range want {
			require.Equal(t, w, r.Uint32(), "seed %d, output %d", seed, i)
		}
	}
	r := New(1200)
	require.Len(t, g.Random.Sample, 3)
	for i, w := range g.Random.Sample {
		require.Equal(t, w, r.RandomSample(), "sample %d", i)
	}
	require.Len(t, g.Random.Perm, 5)
	for n, w := range g.Random.Perm {
		size, err := strconv.Atoi(n)
		require.NoError(t, err)
		require.Equal(t, w, New(1200).Permutation(size), "permutation(%s)", n)
	}
	pi := []int{3, 1, 4, 1, 5, 9, 2, 6}
	New(1200).Shuffle(len(pi), func(i, j int) { pi[i], pi[j] = pi[j], pi[i] })
	require.Equal(t, g.Random.Pi, pi)
}

// TestNumpy runs one generator per seed through the same calls as numpy did.
func TestNumpy(t *testing.T) {
	var g struct {
		Cases []struct {
			Seed     uint32
			Perms    map[string]string `json:"permutations_sha256_int64le"`
			Sample   []string          `json:"random_sample"`
			Uniform  []string          `json:"uniform_-1/sqrt(1280)"`
			R7       []int64           `json:"randint_0_7"`
			RMillion []int64           `json:"randint_-5_1000000"`
			R32      []int64           `json:"randint_0_2^32"`
			R63      []int64           `json:"randint_-2^62_2^62"`
			R1       []int64           `json:"randint_0_1"`
			Normal   []string          `json:"standard_normal"`
			Sum      string            `json:"standard_normal_big_sum"`
			Last     string            `json:"random_sample_last"`
		}
	}
	readJSON(t, "numpy.json", &g)
	require.Len(t, g.Cases, 5)
	number := func(s string) float64 {
		v, err := strconv.ParseFloat(s, 64)
		require.NoError(t, err)
		return v
	}
	for _, c := range g.Cases {
		r := New(c.Seed)
		for _, n := range []int{0, 1, 2, 5, 20, 1000, 5717, 82081} {
			require.Equal(t, c.Perms[strconv.Itoa(n)], sha256OfInts(r.Permutation(n)), "seed %d, permutation(%d)", c.Seed, n)
		}
		for _, w := range c.Sample {
			require.Equal(t, number(w), r.RandomSample())
		}
		bound := 1 / math.Sqrt(1280)
		for _, w := range c.Uniform {
			require.Equal(t, number(w), r.Uniform(-bound, bound))
		}
		for _, k := range []struct {
			lo, hi int64
			want   []int64
		}{{0, 7, c.R7}, {-5, 1000000, c.RMillion}, {0, 1 << 32, c.R32}, {-1 << 62, 1 << 62, c.R63}, {0, 1, c.R1}} {
			require.NotEmpty(t, k.want)
			for _, w := range k.want {
				v, err := r.Randint(k.lo, k.hi)
				require.NoError(t, err)
				require.Equal(t, w, v, "seed %d, randint(%d, %d)", c.Seed, k.lo, k.hi)
			}
		}
		for _, w := range c.Normal {
			require.InEpsilon(t, number(w), r.StandardNormal(), 1e-14)
		}
		sum := 0.0
		for range 10001 {
			sum += r.StandardNormal()
		}
		require.InDelta(t, number(c.Sum), sum, 1e-9)
		require.Equal(t, number(c.Last), r.RandomSample(), "the generators are no longer in step")
	}
}

func TestRandintEmptyRange(t *testing.T) {
	_, err := New(1).Randint(3, 3)
	require.ErrorContains(t, err, "lo must be below hi")
}

func TestStateRoundTrip(t *testing.T) {
	r := New(7)
	for range 700 {
		r.StandardNormal()
	}
	r.StandardNormal() // leaves the second value of a pair behind
	b, err := r.MarshalBinary()
	require.NoError(t, err)
	var s RandomState
	require.NoError(t, s.UnmarshalBinary(b))
	for range 1000 {
		require.Equal(t, r.StandardNormal(), s.StandardNormal())
		require.Equal(t, r.Uint32(), s.Uint32())
	}
	before, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Error(t, s.UnmarshalBinary(b[1:]))
	bad := slices.Clone(b)
	bad[624*4] = 0xff
	require.ErrorContains(t, s.UnmarshalBinary(bad), "no RandomState")
	after, err := s.MarshalBinary()
	require.NoError(t, err)
	require.Equal(t, before, after)
}

func BenchmarkPermutation(b *testing.B) {
	r := New(1200)
	for b.Loop() {
		r.Permutation(82081)
	}
}

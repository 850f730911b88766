# Writes numpy.json: numbers of numpy's legacy generator. Needs numpy.
import hashlib, json
from pathlib import Path
import numpy as np
out={"about":"numpy %s, RandomState(seed): for each seed one generator, the calls in the order of the keys; floats by repr"%np.__version__,"cases":[]}
for s in (0,1,999,1200,2**32-1):
    g=np.random.RandomState(s)
    c={"seed":s}
    c["permutations_sha256_int64le"]={}
    for n in (0,1,2,5,20,1000,5717,82081):
        c["permutations_sha256_int64le"][str(n)]=hashlib.sha256(g.permutation(n).astype('<i8').tobytes()).hexdigest()
    c["random_sample"]=[repr(float(x)) for x in g.random_sample(4)]
    c["uniform_-1/sqrt(1280)"]=[repr(float(x)) for x in g.uniform(-1/np.sqrt(1280),1/np.sqrt(1280),5)]
    c["randint_0_7"]=[int(g.randint(7)) for _ in range(9)]
    c["randint_-5_1000000"]=[int(g.randint(-5,1000000)) for _ in range(9)]
    c["randint_0_2^32"]=[int(g.randint(0,2**32)) for _ in range(3)]
    c["randint_-2^62_2^62"]=[int(g.randint(-2**62,2**62)) for _ in range(5)]
    c["randint_0_1"]=[int(g.randint(0,1)) for _ in range(3)]
    c["standard_normal"]=[repr(float(x)) for x in g.standard_normal(7)]
    c["standard_normal_big_sum"]=repr(float(sum(g.standard_normal(10001).tolist())))
    c["random_sample_last"]=repr(float(g.random_sample()))
    out["cases"].append(c)
json.dump(out,open(Path(__file__).with_name('numpy.json'), 'w'),separators=(',',':'))

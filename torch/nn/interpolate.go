package nn

import "github.com/gospml/gospml/torch"

// Interpolation says how Interpolate resizes. Exactly one of Size and ScaleFactor is given.
type Interpolation struct {
	Size        []int     // output sizes of the dimensions after batch and channels
	ScaleFactor []float64 // or factors: one for each of them, or one for all
	// Mode is "nearest" (the default), "nearest-exact", "linear" (3 dimensions), "bilinear" or "bicubic" (4), "trilinear" (5), "area".
	Mode         string
	AlignCorners bool // the corners' centres stay where they are; linear and cubic modes only
	Antialias    bool // widens the kernel when shrinking, as Pillow does; bilinear and bicubic only
}

// Interpolate resizes the dimensions after batch and channels of [B, C, *] (torch.nn.functional.interpolate, without
// recompute_scale_factor).
func Interpolate(x *torch.Tensor, o Interpolation) *torch.Tensor {
	const op = "nn.Interpolate"
	spatial := x.Dim() - 2
	if spatial < 1 || spatial > 3 {
		refuse(op, "the input has %d dimensions, want batch, channels and 1 to 3 more", x.Dim())
	}
	if (o.Size == nil) == (o.ScaleFactor == nil) {
		refuse(op, "give either Size or ScaleFactor")
	}
	scales := o.ScaleFactor
	if len(scales) == 1 && spatial > 1 {
		scales = nil
		for range spatial {
			scales = append(scales, o.ScaleFactor[0])
		}
	}
	if o.Size != nil && len(o.Size) != spatial || scales != nil && len(scales) != spatial {
		refuse(op, "Size %v or ScaleFactor %v does not have one number for each of the %d dimensions", o.Size, o.ScaleFactor, spatial)
	}
	mode := o.Mode
	if mode == "" {
		mode = "nearest"
	}
	if o.Antialias && mode != "bilinear" && mode != "bicubic" {
		refuse(op, "Antialias goes with the modes bilinear and bicubic, not with %q", mode)
	}
	if o.AlignCorners && (mode == "nearest" || mode == "nearest-exact" || mode == "area") {
		refuse(op, "AlignCorners goes with linear and cubic modes, not with %q", mode)
	}
	var size, factors any // Size and ScaleFactor, or None
	if o.Size != nil {
		size = o.Size
	} else {
		factors = scales
	}
	call := func(name string, arguments ...any) *torch.Tensor {
		return torch.Call("aten::"+name+".vec", arguments...)[0].(*torch.Tensor)
	}
	corners := func(name string, want int) *torch.Tensor {
		if spatial != want {
			refuse(op, "the mode %q needs %d dimensions, got %d", mode, want+2, spatial+2)
		}
		return call(name, x, size, o.AlignCorners, factors)
	}
	dims := string(rune('0'+spatial)) + "d"
	switch mode {
	case "nearest":
		return call("upsample_nearest"+dims, x, size, factors)
	case "nearest-exact":
		return call("_upsample_nearest_exact"+dims, x, size, factors)
	case "linear":
		return corners("upsample_linear1d", 1)
	case "bilinear":
		if o.Antialias {
			return corners("_upsample_bilinear2d_aa", 2)
		}
		return corners("upsample_bilinear2d", 2)
	case "bicubic":
		if o.Antialias {
			return corners("_upsample_bicubic2d_aa", 2)
		}
		return corners("upsample_bicubic2d", 2)
	case "trilinear":
		return corners("upsample_trilinear3d", 3)
	case "area":
		out := o.Size
		if out == nil {
			for i, f := range scales {
				out = append(out, int(float64(x.Size(2+i))*f))
			}
		}
		return torch.Call("aten::adaptive_avg_pool"+dims, x, out)[0].(*torch.Tensor)
	}
	refuse(op, "unknown mode %q", mode)
	return nil
}

// Upsample is Interpolate as a layer (torch.nn.Upsample).
type Upsample struct{ Interpolation }

// Forward resizes [B, C, *].
func (u Upsample) Forward(x *torch.Tensor) *torch.Tensor { return Interpolate(x, u.Interpolation) }

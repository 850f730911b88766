// Package amp trains in mixed precision: Autocast runs what gains from it in bfloat16 or float16, and GradScaler keeps
// float16's small gradients from vanishing. Parameters, gradients and optimizers stay in float32.
//
//	amp.Autocast(torch.DeviceCPU, torch.BFloat16, func() { loss = criterion(model.Forward(x), y) })
//	loss.Backward()                                  // bfloat16 has float32's range and needs no scaler
//	opt.Step()
//
//	amp.Autocast(torch.DeviceCUDA, torch.Float16, func() { loss = … })
//	scaler.Scale(loss).Backward()
//	scaler.Step(opt)                                 // skips when a gradient overflowed
//	scaler.Update()
package amp

import "github.com/gospml/gospml/torch"

// Autocast is torch.Autocast.
func Autocast(device torch.DeviceType, d torch.DType, f func()) { torch.Autocast(device, d, f) }

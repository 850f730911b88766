// Package optim changes parameters by their gradients: SGD, Adam and AdamW on libtorch's fused kernels, Adamax,
// Adagrad and RMSprop on its multi-tensor ones, with PyTorch's names, defaults and numbers.
//
//	opt := optim.NewAdamW(nn.Parameters(backbone), optim.LR(1e-5))
//	opt.AddGroup(nn.Parameters(head), optim.LR(1e-4), optim.WeightDecay(0)) // what is not given is as in the constructor
//	for … {
//		torch.Scope(func(*torch.Arena) {
//			opt.ZeroGrad()
//			loss := …
//			loss.Backward()
//			opt.Step()
//		})
//	}
//
// # Schedules
//
// A Scheduler is made from an optimizer and stepped after it: NewStepLR, NewCosineAnnealingLR, NewOneCycleLR, NewWarmup and
// so on, each with the rates of torch.optim.lr_scheduler to the last digits. ClipGradNorm and ClipGradValue go between Backward and
// Step; averages of weights are nn.NewEMA and nn.NewSWA.
//
// # Groups
//
// Parameters come in groups with numbers of their own. A schedule changes the fields of Groups() between steps; Params stay as
// they are. A parameter without a gradient (frozen, or unused in this step) is skipped and its state stays, as in PyTorch.
// Parameters of several types or devices may stand in one group.
//
// # State
//
// Running averages are made at a parameter's first step, outside any scope, and live as long as the optimizer. StateDict gives them for a
// checkpoint, LoadStateDict puts them back; State says how its keys are built.
//
// # Threads, errors
//
// One goroutine at a time uses an optimizer. Constructors, AddGroup and Step panic with *torch.Error, as tensor
// maths does (torch.Try converts); LoadStateDict returns an error and then has changed nothing.
package optim

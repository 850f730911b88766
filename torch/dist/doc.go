// Package dist trains in several processes: c10d, the collective operations inside libtorch, reached without Python.
//
// A program that torchrun, Slurm, Open MPI or a Kubernetes job starts reads its place with FromEnv and joins the others:
//
//	func main() {
//		dist.Main(func() error {
//			env, err := dist.FromEnv()
//			if err != nil {
//				return err
//			}
//			group, err := dist.Init(env, dist.Options{Timeout: time.Minute})
//			if err != nil {
//				return err
//			}
//			defer group.Close()
//			ddp, err := dist.NewDDP(group, model, dist.DDPOptions{})
//			…
//			loss := model.Loss(batch) // this rank's part of the batch
//			if err := ddp.Prepare(loss); err != nil {
//				return err
//			}
//			loss.Backward() // averages the gradients over the ranks, bucket by bucket, while it runs
//		})
//	}
//
// started, for instance, by `torchrun --no-python --nproc-per-node 2 ./train`.
//
// Ranks are numbered from 0; the ranks of a group must call the same collectives in the same order, each with tensors of the
// same shape and type. A Group is for one goroutine at a time. Every operation ends: with a result, or with an error after the
// group's timeout, or as soon as a peer's connection breaks, which is within seconds of its death. After an error the group is unusable: end
// the process with Main, which writes torchrun's error file, and let the launcher start all ranks again.
//
// Tensors on the CPU travel through Gloo, on cards through NCCL, which needs the CUDA library: as a group of its own
// (Options.Backend), or beside Gloo in one group (Group.Attach).
package dist

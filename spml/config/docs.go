package config

// docs say what each setting is, in a line for people: help, reference and errors have them from here.
var docs = map[string]string{
	"data": "data set in any format of spml data formats, or \"shapes\" for the built-in pictures",
	"data_options": "choices of the data set, NAME=VALUE joined by commas: format, set, images, classes, labels, " +
		"difficult, empty, missing, unknown, no-validation, groups; for shapes train, val, test (numbers of drawn " +
		"pictures) and groups (of train/0, train/1, …)",
	"data_seed":  "seed of the observed labels (default: the seed)",
	"image_size": "side of the square that images are resized to (default 224; 64 for shapes)",
	"exif": "orientation of photos: apply, or ignore as the papers' loaders do (default: ignore with " +
		"--data-set or --recipe, else apply)",
	"max_pixels": "photos of more pixels are left out as broken ones (default 67108864)",
	"flip":       "mirror training images at random (default when fine-tuning photos)",
	"val_labels": "labels that validation is scored against: full or single (the observed ones)",
	"cache_mb":   "memory for decoded images in MB (default 4096)",
	"cache": "where decoded images are kept: auto (memory, or a file where they do not fit and cache_dir " +
		"is given), memory, file or none",
	"cache_dir":     "folder for a file of decoded images, on a fast disk; the file is gone with the process",
	"cache_file_mb": "largest such file in MB (default: what the images need)",
	"method":        "loss, for instance an, bce, em, gr, ll-r; all: spml loss list",
	"params":        "parameters of the loss, NAME=NUMBER",
	"data_set":      "data set whose published parameters the loss takes: voc, coco, nus, cub (default voc)",
	"form":          "the loss as printed (paper) or as released (code), where they differ from the default",
	"log_eps":       "epsilon inside logarithms, as in the released code (0: exact)",
	"latent_dim":    "length of a class's latent in mime and smile (default 256)",
	"group_weight": "weight of a further loss that draws photos of one group (data option groups) to the group's " +
		"running scores, with any method (default 0: none; l48 has a parameter)",
	"group_rate": "share of a step's scores in those of a photo's group (default 0.001)",
	"queue_size": "with lac: pairs of embeddings that are remembered (default 512; -1: none)",
	"strong_view": "while fine-tuning with plc, lac or ignore, what changes the second view: lac (default: flip, " +
		"Cutout, RandAugment, jitter, grey), lac-paper (no jitter, no grey), crop (flip and crop: colours stay) or ignore " +
		"(default of ignore: flip and three operations of torchvision's RandAugment)",
	"stages": "with lac: 2 = plc first, then lac from its best weights; 1 = end to end (default 2)",
	"stage_one": "with lac: run directory of the first stage, for runs that share it (default: inside the " +
		"run's own)",
	"stage_one_delta": "with lac: δ of the first stage (default 0.6)",
	"stage_one_lr":    "with lac: learning rate of the first stage (default: the second's)",
	"pseudo_labels":   ".npy file with 1, 0 and -1 for each image and class, for vlpl and gpr",
	"clip": "image-text model that makes pseudo-labels while training, file or folder, or builtin " +
		"(default for shapes)",
	"clip_precision": "arithmetic of that model: fp32, bf16, fp16 (default fp32)",
	"pseudo_options": "settings of the labels it makes, NAME=VALUE joined by commas: tau, theta, delta, nu, " +
		"top_k, grid, overlap, noise, noise_seed, relation, top_u, weight, template, text_features, " +
		"preprocess",
	"text_features": ".npy file [classes, width] with that model's embeddings of the classes, in place of " +
		"prompts",
	"backbone": "backbone (default mobilenet_v2; small_cnn for shapes); clip: the image tower of the CLIP " +
		"in --weights",
	"weights": "file with the backbone's weights, safetensors or .pth (torchvision or timm names)",
	"features": "with --frozen: .npy files with one feature row per image, joined by commas; or \"data\" " +
		"for those that the data set holds",
	"strong_features": "the same of a strongly augmented view, for plc",
	"mode":            "fine-tune or frozen",
	"head": "linear, boostlu (linear at each position, positive ones raised), decoder (LAC's label-wise " +
		"decoder), ml-decoder or dualcoop (default linear; decoder for lac)",
	"context":       "with --method dualcoop: learned tokens of each prompt (default 16)",
	"class_context": "with --method dualcoop: contexts of each class its own",
	"decoder_dim":   "width of a decoder's tokens (default 256; the paper has 2048)",
	"init":          "run directory whose weights to start from, as far as they fit",
	"batch_norm": "while fine-tuning: live statistics, frozen ones, constant (gain and bias too, folded into " +
		"the convolutions), or auto (default)",
	"freeze_at": "first stages of a ResNet that are not trained: 1 the stem, 2 the stem and layer1 (0: none)",
	"grad_checkpointing": "compute again during backward instead of keeping: none, head (a decoder's layers), all (a " +
		"ResNet's blocks too) (default none)",
	"epochs": "epochs (default: 4 fine-tuning pretrained weights, 30 from scratch, 25 frozen, 10 shapes)",
	"schedule": "learning rate over the run: constant, cosine, onecycle, linear, polynomial, step or " +
		"exponential (default constant)",
	"warmup_epochs": "epochs over which the learning rate rises at the start",
	"freeze_epochs": "first epochs that train the classifier alone",
	"pct_start":     "share of the steps in which onecycle rises (default 0.3)",
	"power":         "exponent of --schedule polynomial, which falls by (1 - share of the run)^power (default 2)",
	"gamma":         "factor of --schedule exponential after each epoch (default 0.9), and of step (default 0.1)",
	"step_epochs":   "epochs between the falls of --schedule step (default a third of the run)",
	"patience":      "stop after this many epochs in a row without a better validation mAP (0: never)",
	"max_drop":      "stop where validation mAP falls more points below the best (0: never)",
	"optimizer":     "adam, adamw, adamax or sgd (default adam)",
	"batch_size":    "images per step (default by mode)",
	"lr":            "learning rate (default by mode)",
	"head_lr": "learning rate of the classifier (default 10 x lr when fine-tuning pretrained weights, else " +
		"lr)",
	"weight_decay":          "weight decay",
	"momentum":              "momentum of sgd",
	"clip_norm":             "largest norm of the gradient (0: any)",
	"ema":                   "decay of a running average of the weights, which is then scored and saved (0: none)",
	"ema_best":              "score the weights beside their average and keep the better",
	"micro_batch":           "images per forward pass, with the gradients of a batch added up (0: the batch)",
	"optimizer_in_backward": "step each parameter as soon as its gradient is there: the same weights in less memory",
	"run":                   "run directory to write (default of train: runs/DATA-METHOD-DATE-TIME; empty: none)",
	"seed":                  "seed of initialisation and order",
	"device": "where to compute: auto (a graphics card where there is one, else the CPU), cpu, cuda or " +
		"cuda:N (default auto)",
	"precision": "fp32, bf16, or fp16 with a loss scale (default: bf16 on a CPU with AMX, else fp32)",
	"threads":   "threads per operation (0: all cores)",
	"deterministic": "fail where an operator could give other bits the next time (for cards: CPU runs give the " +
		"same bits without it)",
	"boost":      "with --head boostlu: factor of positive positions (default 5)",
	"boost_eval": "with --head boostlu: train without the factor, score with it",
	"no_test":    "leave the test part alone: it is neither scored nor written, as while settings are being chosen",
	"class_names": "file with a text for each class, a line each, that stands for the classes in that model's " +
		"prompts; cub: CUB's 312 attributes in words",
	"expected_positives": "positives of an image that epr, role and gpr count on: published (default) or validation, " +
		"the mean of the validation rows' full labels",
	"save_every": "checkpoints beside those at the end of epochs: a time (10m) or steps (500); off: none",
	"keep_last":  "newest checkpoints that are kept (default 2)",
	"keep_best":  "checkpoints of the best epochs that are kept beside them",
	"max_steps":  "stop, resumable, after this many steps (0: none)",
}

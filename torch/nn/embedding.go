package nn

import "github.com/gospml/gospml/torch"

// Embedding looks rows of a table up (torch.nn.Embedding).
type Embedding struct {
	Weight *torch.Tensor // [NumEmbeddings, EmbeddingDim]

	NumEmbeddings, EmbeddingDim int
}

// NewEmbedding draws the table from N(0, 1). Options: DType, Device, Generator, NoInit.
func NewEmbedding(numEmbeddings, embeddingDim int, opts ...Option) *Embedding {
	c := gather("nn.NewEmbedding", factory, opts)
	if numEmbeddings < 0 || embeddingDim < 0 {
		refuse("nn.NewEmbedding", "num_embeddings %d and embedding_dim %d must not be negative", numEmbeddings, embeddingDim)
	}
	e := &Embedding{Weight: c.empty(numEmbeddings, embeddingDim), NumEmbeddings: numEmbeddings, EmbeddingDim: embeddingDim}
	if !c.noInit {
		Normal_(e.Weight, 0, 1, c.gen)
	}
	trained(e.Weight)
	return e
}

// Forward maps int64 (or int32) indices [*] to rows [*, EmbeddingDim].
func (e *Embedding) Forward(indices *torch.Tensor) *torch.Tensor {
	return torch.Embedding(e.Weight, indices)
}

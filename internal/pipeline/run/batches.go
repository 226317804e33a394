package run

// Batched is what came of the batches of a build.
type Batched struct {
	Requests int64 `json:"requests"` // of its chunks
	Known    int64 `json:"known"`    // answered before, or by batches
	Online   int64 `json:"online"`   // left to calls of their own: too late, refused, or of no use
}

// BatchForm is how the server takes requests, as the first process that sends batches of the run finds out.
type BatchForm struct {
	Form string `json:"form"`
}

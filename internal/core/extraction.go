package core

// Extraction says what the chat model extracts: from which share of the chunks, where rules do from the others, in
// which language it describes, and which types of entities the index wants.
type Extraction struct {
	Share    float64 `json:"share"`
	Language string  `json:"language,omitempty"` // that descriptions are written in; empty: that of the text

	// Types are the types that entities are given. None: entities have no type.
	Types []string `json:"types,omitempty"`
	// Guidance is what the prompt says about the corpus beside the product's own words.
	Guidance string `json:"guidance,omitempty"`
	// Examples are answers for the model to follow. A configuration names a file, a specification holds what the file
	// says, as WriteExamples writes it.
	Examples string `json:"examples,omitempty"`

	// Apply says which passages other types, guidance or examples than the parent's are applied to. The config digest
	// does not cover it.
	Apply string `json:"apply,omitempty"`
}

// covered returns what the config digest covers; nil: nothing but the usual.
func (x *Extraction) covered() *Extraction {
	if x == nil {
		return nil
	}
	out := *x
	if out.Apply = ""; out.Share >= 1 && out.Language == "" && out.Request().IsEmpty() {
		return nil
	}
	return &out
}

// WritingLanguage returns the language that descriptions are written in; empty: that of the text.
func (s Spec) WritingLanguage() string {
	if s.Extraction == nil {
		return ""
	}
	return s.Extraction.Language
}

// ExtractionShare returns the share of chunks that are sent to the chat model.
func (s Spec) ExtractionShare() float64 {
	if s.Extraction == nil {
		return 1
	}
	return s.Extraction.Share
}

// Request is what an index adds to the prompt of extractions. Two requests with one Digest ask the same.
type Request struct {
	Types    []string `json:"types,omitempty"`
	Guidance string   `json:"guidance,omitempty"`
	Examples string   `json:"examples,omitempty"`
}

// Request returns what the settings add to the prompt.
func (x *Extraction) Request() Request {
	if x == nil {
		return Request{}
	}
	return Request{x.Types, x.Guidance, x.Examples}
}

// OwnRequest returns what the index adds to the prompt. Under parity it adds nothing.
func (s Spec) OwnRequest() Request {
	if s.Parity {
		return Request{}
	}
	return s.Extraction.Request()
}

// IsEmpty reports whether nothing is added.
func (r Request) IsEmpty() bool { return len(r.Types) == 0 && r.Guidance == "" && r.Examples == "" }

// Digest returns the identity of the request.
func (r Request) Digest() Digest {
	return Sum(append([]string{"request/1", r.Guidance, r.Examples}, r.Types...)...)
}

package core

import "slices"

// Passages that a request of another kind than the parent's is applied to.
const (
	ApplyAll      = "all"      // every one
	ApplyNew      = "new"      // those that the parent does not have
	ApplyMentions = "mentions" // those, and those that name what has another type now
)

// MaxEarlier is how many earlier requests a generation remembers. A passage of an older one is asked again.
const MaxEarlier = 4

// Asked is what a generation's passages were extracted by: the current request, and the earlier ones that some passages
// still have, the newest first.
type Asked struct {
	Request Request   `json:"request,omitzero"`
	Earlier []Request `json:"earlier,omitempty"`
	Apply   string    `json:"apply,omitempty"` // with Earlier: ApplyNew or ApplyMentions
}

// IsEmpty reports whether nothing was asked but the product's own words, of any passage.
func (a Asked) IsEmpty() bool { return a.Request.IsEmpty() && len(a.Earlier) == 0 }

// Same reports whether the two leave the same passages as they are.
func (a Asked) Same(other Asked) bool {
	return a.Apply == other.Apply && slices.EqualFunc(a.Earlier, other.Earlier, func(one, two Request) bool {
		return one.Digest() == two.Digest()
	})
}

// AskOver returns what a build asks over a parent that was extracted as before says. A request that is the parent's
// goes on as the parent has it, unless apply says more. Another one is applied to all passages, unless apply says less.
func AskOver(before Asked, request Request, apply string) Asked {
	out := Asked{Request: request}
	same := before.Request.Digest() == request.Digest()
	switch {
	case apply == ApplyAll || apply == "" && !same:
		return out
	case same:
		out.Earlier = before.Earlier
	default:
		out.Earlier = append([]Request{before.Request}, before.Earlier...)
		out.Earlier = slices.DeleteFunc(out.Earlier, func(one Request) bool { return one.Digest() == request.Digest() })
		out.Earlier = out.Earlier[:min(len(out.Earlier), MaxEarlier)]
	}
	if len(out.Earlier) == 0 {
		return out
	}
	out.Apply = apply
	if same && apply != ApplyMentions {
		out.Apply = before.Apply
	}
	return out
}

// Changed returns the types that this request asks for and an earlier one does not, or the other way round; all of both
// where guidance or examples differ.
func (r Request) Changed(earlier Request) []string {
	all := r.Guidance != earlier.Guidance || r.Examples != earlier.Examples
	var out []string
	for _, one := range r.Types {
		if all || !slices.Contains(earlier.Types, one) {
			out = append(out, one)
		}
	}
	for _, one := range earlier.Types {
		if !slices.Contains(r.Types, one) {
			out = append(out, one)
		}
	}
	return out
}

// WithRequest returns the specification with another request.
func (s Spec) WithRequest(request Request) Spec {
	out := Extraction{Share: 1}
	if s.Extraction != nil {
		out = *s.Extraction
	}
	out.Types, out.Guidance, out.Examples = request.Types, request.Guidance, request.Examples
	s.Extraction = &out
	return s
}

// ApplyTo returns which passages another request is applied to; empty: nothing is chosen.
func (s Spec) ApplyTo() string {
	if s.Extraction == nil {
		return ""
	}
	return s.Extraction.Apply
}

// WithApply returns the specification with a choice of passages.
func (s Spec) WithApply(apply string) Spec {
	s = s.WithRequest(s.Extraction.Request())
	s.Extraction.Apply = apply
	return s
}

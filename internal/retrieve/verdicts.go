package retrieve

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/unweaver/unweaver/internal/core"
)

// keptVerdicts is how many filters a generation remembers, those of the last questions.
const keptVerdicts = 16

// verdicts are which documents meet a filter, as far as they were looked at: two bits each, of which the lower one says
// that the document was looked at, and the higher one that it meets the filter.
type verdicts []atomic.Uint32

const verdictsInWord = 16

// find returns whether a document meets the filter, and whether that is known.
func (v verdicts) find(document int) (meets, known bool) {
	bits := v[document/verdictsInWord].Load() >> (2 * (document % verdictsInWord))
	return bits&2 != 0, bits&1 != 0
}

// note writes down whether a document meets the filter.
func (v verdicts) note(document int, meets bool) {
	bits := uint32(1)
	if meets {
		bits = 3
	}
	v[document/verdictsInWord].Or(bits << (2 * (document % verdictsInWord)))
}

// verdictCache keeps the verdicts of a generation by filter. What it holds never becomes wrong, as a generation does
// not change.
type verdictCache struct {
	mu    sync.Mutex
	kept  map[core.Digest]verdicts
	order []core.Digest // the last asked for is the last
}

// open returns the verdicts of a filter for so many documents.
func (c *verdictCache) open(filter *Filter, documents int) verdicts {
	key := filter.sum()
	c.mu.Lock()
	defer c.mu.Unlock()
	found := c.kept[key]
	if found == nil {
		found = make(verdicts, documents/verdictsInWord+1)
		if c.kept == nil {
			c.kept = map[core.Digest]verdicts{}
		}
		c.kept[key] = found
	}
	c.order = slices.DeleteFunc(c.order, func(one core.Digest) bool { return one == key })
	if c.order = append(c.order, key); len(c.order) > keptVerdicts {
		delete(c.kept, c.order[0])
		c.order = c.order[1:]
	}
	return found
}

// sum returns what distinguishes a filter from others.
func (f *Filter) sum() core.Digest {
	fields := []string{f.Prefix, f.From.UTC().String(), f.To.UTC().String()}
	for i := range f.Metadata {
		c := &f.Metadata[i]
		exists := ""
		if c.Exists != nil {
			exists = fmt.Sprint(*c.Exists)
		}
		fields = append(fields, "field", c.Field, c.In.sum(), c.Not.sum(), exists)
		for _, b := range c.Bounds {
			fields = append(fields, fmt.Sprint(b.number, b.moment.Unix(), b.moment.Nanosecond(), b.isTime, b.upper, b.included))
		}
	}
	for i := range f.Any {
		fields = append(fields, "or", f.Any[i].sum().String())
	}
	return core.Sum(fields...)
}

// sum returns what distinguishes values from others; empty for none.
func (v *Values) sum() string {
	if v == nil {
		return ""
	}
	return v.digest.String()
}

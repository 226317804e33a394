package segment

import (
	"context"
	"iter"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/fault"
)

// docs walks the document keys beside the chunks, which follow the same order.
type docs struct {
	next func() (string, error, bool)
	stop func()
	at   int
}

func newDocs(ctx context.Context, in In) *docs {
	d := &docs{at: -1}
	d.next, d.stop = iter.Pull2(func(yield func(string, error) bool) {
		for _, s := range in.Segments.Documents {
			for row, err := range artifact.ScanAll(ctx, in.Artifacts.Store, in.Artifacts.SegmentKey(s.SHA256)) {
				if !yield(string(row.Key), err) || err != nil {
					return
				}
			}
		}
	})
	return d
}

// seek moves on to a key and gives its place.
func (d *docs) seek(key string) (int, error) {
	for {
		k, err, ok := d.next()
		if err != nil {
			return 0, err
		}
		if !ok {
			return 0, fault.Internal.At("order chunks", "").
				Because("a chunk's document is not in the documents segment").
				Advise("report this")
		}
		d.at++
		if k == key {
			return d.at, nil
		}
	}
}

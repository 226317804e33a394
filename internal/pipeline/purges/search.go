package purges

import (
	"context"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/records"
	"github.com/unweaver/unweaver/internal/stream/parallel"
)

const (
	searchAtOnce = 8
	mostFound    = 100 // objects that a result names
)

// Search reads everything that is stored for an index, with the ledger that all indexes share, and looks for marks:
// each object byte by byte, the rows of row files unpacked as well, and the class records. alive is called as it gets
// on.
func Search(
	ctx context.Context, index artifact.Index, classes records.Store, storeID string, marks []Mark, alive func(),
) (core.Searched, error) {
	s := &searching{
		seeker: NewSeeker(marks), store: index.Store, alive: alive,
		out: core.Searched{Marks: len(marks), Found: []string{}},
	}
	for _, prefix := range []string{index.Name + "/", "ledger/"} {
		if err := s.objects(ctx, prefix); err != nil {
			return s.out, err
		}
	}
	if classes != nil {
		if err := s.records(ctx, classes, storeID[:8]+":c:"+index.Name+":"); err != nil {
			return s.out, err
		}
	}
	slices.Sort(s.out.Found)
	s.out.Found = s.out.Found[:min(len(s.out.Found), mostFound)]
	return s.out, nil
}

type searching struct {
	seeker *Seeker
	store  blob.Store
	alive  func()

	mu  sync.Mutex
	out core.Searched
}

// objects searches those under a prefix. The traces of purges are what is searched for, and hold no text.
func (s *searching) objects(ctx context.Context, prefix string) error {
	keys := func(yield func(blob.Info, error) bool) {
		for info, err := range s.store.List(ctx, prefix, "") {
			if err == nil && strings.HasSuffix(info.Key, traceEnding) {
				continue
			}
			if !yield(info, err) || err != nil {
				return
			}
		}
	}
	for _, err := range parallel.Ordered(ctx, searchAtOnce, keys, s.object) {
		if err != nil {
			return err
		}
		s.alive()
	}
	return nil
}

// object searches one; one that was deleted meanwhile holds nothing.
func (s *searching) object(ctx context.Context, info blob.Info) (none struct{}, err error) {
	found := false
	over := s.seeker.Over(func(int) { found = true })
	_, _ = over.Write([]byte(info.Key))
	over.apart()
	read, err := s.raw(ctx, info.Key, over)
	if err != nil {
		return none, unlessGone(err)
	}
	reader, err := artifact.OpenRows(ctx, s.store, info.Key)
	if err != nil && !artifact.IsDamage(err) {
		return none, err
	}
	if err == nil { // a row file: what it has packed is unpacked
		for row, err := range reader.Scan(ctx, 0, len(reader.Frames)) {
			if err != nil {
				return none, unlessGone(err)
			}
			over.apart()
			_, _ = over.Write(row.Key)
			over.apart()
			_, _ = over.Write(row.Value)
			read += int64(len(row.Key) + len(row.Value))
		}
	}
	s.tell(s.store.Location(info.Key), read, found)
	return none, nil
}

func (s *searching) raw(ctx context.Context, key string, over io.Writer) (int64, error) {
	body, _, err := s.store.Get(ctx, key, blob.Range{Length: -1})
	if err != nil {
		return 0, err
	}
	defer func() { _ = body.Close() }()
	read, err := io.Copy(over, body)
	if err != nil && fault.As(err) == nil {
		err = fault.StoreDown.At("read", s.store.Location(key)).Because(err)
	}
	return read, err
}

func unlessGone(err error) error {
	if fault.Is(err, fault.NotFound) {
		return nil
	}
	return err
}

func (s *searching) tell(object string, read int64, found bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.out.Objects++
	s.out.Bytes += read
	if found {
		s.out.Found = append(s.out.Found, object)
	}
}

// records searches the class records of the index.
func (s *searching) records(ctx context.Context, classes records.Store, prefix string) error {
	return classes.ScanRecords(ctx, prefix, func(keys []string) error {
		values, err := classes.GetRecords(ctx, keys)
		if err != nil {
			return err
		}
		for i, value := range values {
			found := false
			_, _ = s.seeker.Over(func(int) { found = true }).Write(value)
			s.tell("record "+keys[i], int64(len(value)), found)
		}
		s.alive()
		return nil
	})
}

package load_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/parquet-go/parquet-go"

	"github.com/unweaver/unweaver/internal/corpus"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/stage/stagetest"
	"github.com/unweaver/unweaver/internal/store/artifact"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/vectors"
)

// importer is a vector store that imports files from a bucket: it never looks at keys, so that what is imported twice
// is there twice.
type importer struct {
	vectors.Store // only what the import needs is here
	bucket        blob.Store
	rows          []string // keys, in the order of arrival
	jobs          map[string]*job
	polls         int                                           // a job is done after so many looks
	onImport      func(path string, taken func()) (bool, error) // what happens instead of an import; may be nil
	broken        string                                        // jobs whose path holds it fail
	creates       int
}

type job struct {
	path  string
	left  int
	done  bool
	state vectors.ImportState
}

func (s *importer) Create(context.Context, string, int) error { s.creates++; return nil }

func (s *importer) Drop(context.Context, string) error {
	s.rows, s.jobs = nil, map[string]*job{}
	return nil
}

func (s *importer) Count(context.Context, string) (int64, error) { return int64(len(s.rows)), nil }

func (s *importer) Import(_ context.Context, _, path string) (string, error) {
	name := fmt.Sprint("job", len(s.jobs))
	taken := func() { s.jobs[name] = &job{path: path, left: s.polls} }
	if s.onImport != nil {
		if handled, err := s.onImport(path, taken); handled {
			return name, err
		}
	}
	taken()
	return name, nil
}

func (s *importer) Imports(context.Context, string) (map[string][]string, error) {
	out := map[string][]string{}
	for name, j := range s.jobs {
		out[j.path] = append(out[j.path], name)
	}
	return out, nil
}

func (s *importer) ImportState(ctx context.Context, name string) (vectors.ImportState, error) {
	j := s.jobs[name]
	if j == nil {
		return vectors.ImportState{Unknown: true}, nil
	}
	if s.broken != "" && strings.Contains(j.path, s.broken) {
		return vectors.ImportState{Failed: "broken"}, nil
	}
	if j.left--; j.left < 0 && !j.done {
		raw, _, err := blob.Read(ctx, s.bucket, j.path)
		if err != nil {
			return vectors.ImportState{Failed: "file is gone"}, nil
		}
		list, err := parquet.Read[load.VectorRow](bytes.NewReader(raw), int64(len(raw)))
		if err != nil {
			return vectors.ImportState{Failed: err.Error()}, nil
		}
		for _, row := range list {
			s.rows = append(s.rows, row.Key)
		}
		j.done = true
		j.state = vectors.ImportState{Done: true, Rows: int64(len(list))}
	}
	return j.state, nil
}

type importBench struct {
	*testing.T
	store   *importer
	in      load.ImportIn
	artRaw  blob.Store
	tamper  *stagetest.Tampered
	want    int
	staging blob.Store
}

// newImport has n files of ten rows each.
func newImport(t *testing.T, n int) *importBench {
	t.Helper()
	artifacts, err := dir.Open(t.TempDir())
	stagetest.Ok(t, err)
	staging, err := dir.Open(t.TempDir())
	stagetest.Ok(t, err)
	b := &importBench{
		T: t,
		store: &importer{
			bucket: staging,
			jobs:   map[string]*job{},
			rows:   []string{"left of an abandoned build"},
			polls:  2,
		},
		artRaw:  artifacts,
		tamper:  &stagetest.Tampered{Store: artifacts},
		want:    10 * n,
		staging: staging,
	}
	art := artifact.Index{Store: b.tamper, Name: "i", OneName: true}
	b.in = load.ImportIn{
		Artifacts: art, Staging: staging, Vectors: b.store, Kind: "classes", Collection: "c", Dimension: dim,
		State: "i/runs/g/import.json", Prefix: "import", Log: slog.New(slog.DiscardHandler),
	}
	for i := range n {
		b.in.Files = append(b.in.Files, vectorsSegment(t, art, i))
	}
	return b
}

// A run that lost its lease must neither empty nor fill a collection that may be another's by now.
func TestAnImportWhoseLeaseIsLostTouchesNothing(t *testing.T) {
	lost := fault.LeaseLost.At("work on", "i/g")
	for name, test := range map[string]struct{ looks, rows, jobs int }{
		"lost at the beginning":     {0, 1, 0},
		"lost when it was empty":    {1, 0, 0},
		"lost after the first file": {2, 0, 1},
	} {
		b := newImport(t, 3)
		asked := 0
		b.in.Guard = func(context.Context) error {
			if asked++; asked > test.looks {
				return lost
			}
			return nil
		}
		if err := load.Import(t.Context(), b.in); !errors.Is(err, lost) {
			t.Errorf("%s: %v", name, err)
		}
		if len(b.store.rows) != test.rows || len(b.store.jobs) != test.jobs {
			t.Errorf("%s: %d rows, %d jobs", name, len(b.store.rows), len(b.store.jobs))
		}
	}
}

func vectorsSegment(t *testing.T, art artifact.Index, n int) corpus.Segment {
	t.Helper()
	file, err := artifact.NewFile()
	stagetest.Ok(t, err)
	defer file.Discard()
	list := make([]load.VectorRow, 10)
	for i := range list {
		key := fmt.Sprintf("file %d row %d", n, i)
		list[i] = load.VectorRow{Key: key, Vector: stagetest.Vector(key, dim)}
	}
	writer := parquet.NewGenericWriter[load.VectorRow](file)
	_, err = writer.Write(list)
	stagetest.Ok(t, err)
	stagetest.Ok(t, writer.Close())
	segment, _, err := file.PutSegment(t.Context(), art)
	stagetest.Ok(t, err)
	segment.Rows = 10
	return segment
}

func (b *importBench) check(rounds int) {
	b.Helper()
	seen := map[string]int{}
	for _, key := range b.store.rows {
		seen[key]++
	}
	if len(b.store.rows) != b.want || len(seen) != b.want {
		b.Errorf("%d rows, %d keys, want %d", len(b.store.rows), len(seen), b.want)
	}
	if b.store.creates != rounds {
		b.Errorf("%d rounds, want %d", b.store.creates, rounds)
	}
	for info, err := range b.staging.List(b.Context(), "", "") {
		b.Errorf("the copy %s stays, %v", info.Key, err)
	}
}

func TestAnImportFillsACollectionWithEachRowOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newImport(t, 3)
		var told []int64
		b.in.OnProgress = func(p corpus.Progress) { told = append(told, p.Done) }
		stagetest.Ok(t, load.Import(t.Context(), b.in))
		b.check(1)
		if fmt.Sprint(told) != "[0 0 30]" {
			t.Errorf("told %v", told)
		}
		stagetest.Ok(t, load.Import(t.Context(), b.in)) // a repeated attempt finds it done
		b.check(1)
	})
}

// observed is a store behind a decorator, as that of a worker is: what imports is found below it.
type observed struct{ vectors.Store }

func (o observed) Unwrap() vectors.Store { return o.Store }

func TestAStoreThatIsObservedImportsToo(t *testing.T) {
	b := newImport(t, 3)
	b.in.Vectors = observed{b.store}
	stagetest.Ok(t, load.Import(t.Context(), b.in))
	b.check(1)
}

// A process may die between any two steps. The next one must end with each row once, and may begin again only where
// nobody can say whether a file was taken.
func TestAnImportSurvivesACrashAtEachOfItsSavePoints(t *testing.T) {
	crash := errors.New("crash")
	saves := 0
	synctest.Test(t, func(t *testing.T) { // how many there are
		b := newImport(t, 2)
		b.tamper.OnPut = func(key string) error {
			if key == b.in.State {
				saves++
			}
			return nil
		}
		stagetest.Ok(t, load.Import(t.Context(), b.in))
	})
	if saves < 7 { // reset, asked and job for each file, all waited for, done
		t.Fatalf("only %d saves", saves)
	}
	for n := range saves {
		for _, after := range []bool{false, true} {
			t.Run(fmt.Sprintf("save %d, written: %v", n, after), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					b := newImport(t, 2)
					at := 0
					fail := func(key string) error {
						if key != b.in.State {
							return nil
						}
						if at++; at == n+1 {
							return crash
						}
						return nil
					}
					if after {
						b.tamper.AfterPut = fail
					} else {
						b.tamper.OnPut = fail
					}
					if err := load.Import(t.Context(), b.in); !errors.Is(err, crash) {
						t.Fatalf("got %v", err)
					}
					stagetest.Ok(t, load.Import(t.Context(), b.in))
					rounds := 1
					switch {
					case n == 0 && !after: // the collection was emptied, and nobody knows
						rounds = 2
					case after && (n == 1 || n == 3): // asked for, it says, and no job is known
						rounds = 2
					}
					b.check(rounds)
				})
			})
		}
	}
}

func TestAnImportWhoseAnswerWasLost(t *testing.T) {
	down := fault.StoreDown.At("import", "c")
	for name, c := range map[string]struct {
		taken  bool
		rounds int
	}{"but was taken is found again": {true, 1}, "and was not taken begins again": {false, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newImport(t, 2)
				lost := false
				b.store.onImport = func(_ string, taken func()) (bool, error) {
					if lost {
						return false, nil
					}
					lost = true
					if c.taken {
						taken()
					}
					return true, down
				}
				if err := load.Import(t.Context(), b.in); !errors.Is(err, down) {
					t.Fatalf("got %v", err)
				}
				stagetest.Ok(t, load.Import(t.Context(), b.in))
				b.check(c.rounds)
			})
		})
	}
}

func TestAJobThatFailsEmptiesTheCollectionAndInTheEndLeavesItToVerify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newImport(t, 2)
		b.store.broken = "import-0/"
		stagetest.Ok(t, load.Import(t.Context(), b.in))
		b.check(2)
	})
	synctest.Test(t, func(t *testing.T) {
		b := newImport(t, 2)
		b.store.broken, b.want = "import-", 0
		stagetest.Ok(t, load.Import(t.Context(), b.in))
		b.check(4)
	})
}

func TestRowsThatDoNotAddUpBeginAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newImport(t, 2)
		doubled := false
		b.store.onImport = func(_ string, taken func()) (bool, error) {
			if !doubled { // another program's row
				doubled = true
				b.store.rows = append(b.store.rows, "stray")
			}
			return false, nil
		}
		stagetest.Ok(t, load.Import(t.Context(), b.in))
		b.check(2)
	})
}

func TestAStoreThatForgotAJobIsJudgedByItsCount(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newImport(t, 1)
		b.store.onImport = func(path string, _ func()) (bool, error) {
			raw, _, err := blob.Read(t.Context(), b.staging, path)
			stagetest.Ok(t, err)
			list, err := parquet.Read[load.VectorRow](bytes.NewReader(raw), int64(len(raw)))
			stagetest.Ok(t, err)
			for _, row := range list {
				b.store.rows = append(b.store.rows, row.Key)
			}
			return true, nil
		}
		stagetest.Ok(t, load.Import(t.Context(), b.in))
		b.check(1)
	})
}

func TestAnImportStopsWhenItIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newImport(t, 1)
		b.store.polls = 1 << 30
		ctx, cancel := context.WithCancelCause(t.Context())
		paused := fault.Paused.At("import", "c")
		looks := 0
		b.in.OnProgress = func(corpus.Progress) {
			if looks++; looks == 3 {
				cancel(paused)
			}
		}
		if err := load.Import(ctx, b.in); !errors.Is(err, paused) {
			t.Errorf("got %v", err)
		}
		b.store.polls = 0
		for _, j := range b.store.jobs {
			j.left = 0
		}
		b.in.OnProgress = nil
		stagetest.Ok(t, load.Import(t.Context(), b.in))
		b.check(1)
	})
}

func TestAStoreThatCannotImportIsToldSo(t *testing.T) {
	b := newImport(t, 1)
	b.in.Vectors = fullVectors{}
	if err := load.Import(t.Context(), b.in); !fault.Is(err, fault.Internal) {
		t.Errorf("got %v", err)
	}
}

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
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/stage"
	"github.com/unweaver/unweaver/internal/stage/load"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/store/vectors"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
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
	broken        func(path string) bool                        // jobs of such a path fail; may be nil
	limit         int                                           // jobs at once, above which it refuses; 0: none
	most          int                                           // jobs that were in flight at once
	asked         map[string]int                                // calls by path
	last          string                                        // path of the last call
	silent        bool                                          // it does not tell what a job reads
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
	if s.asked == nil {
		s.asked = map[string]int{}
	}
	s.asked[path]++
	s.last = path
	running := 0
	for _, j := range s.jobs {
		if !j.done {
			running++
		}
	}
	if s.limit > 0 && running >= s.limit {
		return "", fault.StoreDown.At("import", path).Because("the number of jobs has reached the limit")
	}
	s.most = max(s.most, running+1)
	if s.onImport != nil {
		if handled, err := s.onImport(path, taken); handled {
			return name, err
		}
	}
	taken()
	return name, nil
}

func (s *importer) ListImports(context.Context, string) (map[string][]string, error) {
	out := map[string][]string{}
	for name, j := range s.jobs {
		path := j.path
		if s.silent {
			path = ""
		}
		out[path] = append(out[path], name)
	}
	return out, nil
}

func (s *importer) ImportState(ctx context.Context, name string) (vectors.ImportState, error) {
	j := s.jobs[name]
	if j == nil {
		return vectors.ImportState{Unknown: true}, nil
	}
	if s.broken != nil && s.broken(j.path) {
		j.done = true
		return vectors.ImportState{Failed: "broken"}, nil
	}
	if j.left--; j.left < 0 && !j.done {
		raw, _, err := blob.Read(ctx, s.bucket, j.path)
		if err != nil {
			j.done = true
			return vectors.ImportState{Failed: "file is gone"}, nil
		}
		list, err := parquet.Read[stage.VectorRow](bytes.NewReader(raw), int64(len(raw)))
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

// withImport tests an import of n files in a time of its own.
func withImport(t *testing.T, n int, test func(t *testing.T, b *importBench)) {
	synctest.Test(t, func(t *testing.T) { test(t, newImport(t, n)) })
}

// newImport has n files of ten rows each.
func newImport(t *testing.T, n int) *importBench {
	artifacts := stagetest.Must(dir.Open(t.TempDir()))
	staging := stagetest.Must(dir.Open(t.TempDir()))
	b := &importBench{
		T:      t,
		store:  &importer{bucket: staging, jobs: map[string]*job{}, rows: []string{"left of an abandoned build"}, polls: 2},
		artRaw: artifacts, tamper: &stagetest.Tampered{Store: artifacts}, want: 10 * n, staging: staging,
	}
	art := artifact.Index{Store: b.tamper, Name: "i"}
	b.in = load.ImportIn{
		Artifacts: art, Staging: staging, Vectors: b.store, Kind: "classes", Collection: "c", Dimension: dim,
		State: "i/runs/g/import.json", Prefix: "import", Log: slog.New(slog.DiscardHandler), InFlight: 1,
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
		"lost after the first file": {2, 10, 1},
	} {
		b := newImport(t, 3)
		asked := 0
		b.in.Guard = func(context.Context) error {
			if asked++; asked > test.looks {
				return lost
			}
			return nil
		}
		assert.ErrorIs(t, load.Import(t.Context(), b.in), lost, "%s", name)
		assert.True(t, len(b.store.rows) == test.rows && len(b.store.jobs) == test.jobs,
			"%s: %d rows, %d jobs", name, len(b.store.rows), len(b.store.jobs))
	}
}

func vectorsSegment(t *testing.T, art artifact.Index, n int) core.Segment {
	list := make([]stage.VectorRow, 10)
	for i := range list {
		key := fmt.Sprintf("file %d row %d", n, i)
		list[i] = stage.VectorRow{Key: key, Vector: stagetest.Vector(key, dim)}
	}
	return stagetest.Vectors(t, art, list...)
}

// imports ends an import, after which each row is there once, and the collection was emptied so many times.
func (b *importBench) imports(rounds int) {
	b.Helper()
	stagetest.Ok(b, load.Import(b.Context(), b.in))
	b.check(rounds)
}

func (b *importBench) check(rounds int) {
	b.Helper()
	seen := map[string]int{}
	for _, key := range b.store.rows {
		seen[key]++
	}
	assert.True(b, len(b.store.rows) == b.want && len(seen) == b.want,
		"%d rows, %d keys, want %d", len(b.store.rows), len(seen), b.want)
	assert.Equal(b, rounds, b.store.creates)
	for info, err := range b.staging.List(b.Context(), "", "") {
		b.Errorf("the copy %s stays, %v", info.Key, err)
	}
}

func TestAnImportFillsACollectionWithEachRowOnce(t *testing.T) {
	withImport(t, 3, func(t *testing.T, b *importBench) {
		b.in.InFlight = 0 // as many as are usual
		var reported []int64
		b.in.OnProgress = func(p core.Progress) { reported = append(reported, p.Done) }
		b.imports(1)
		assert.Equal(t, "[0 0 30]", fmt.Sprint(reported), "reported %v", reported)
		b.imports(1) // a repeated attempt finds it done
	})
}

// Jobs are as many as may be in flight and as the store takes, and none of those begins again. One that fails is
// repeated for its file alone, once; what fails again is left to verify.
// Promises: 117.
func TestJobsAreBoundedAndAJobThatFailsIsRepeatedForItsFileAlone(t *testing.T) {
	for name, c := range map[string]struct {
		files, inFlight, limit int
		broken                 string // what ends the paths that fail, behind the name of the second file
		most, asked, want      int    // asked is 0 where it is no matter
	}{
		"as many as may be":                {20, 4, 0, "", 4, 0, 200},
		"as many as the store takes":       {7, 5, 2, "", 2, 0, 70},
		"one fails":                        {3, 1, 0, ".parquet", 1, 4, 30},
		"one fails beside others":          {3, 8, 0, ".parquet", 3, 4, 30},
		"one fails again, though it waits": {3, 1, 0, "", 1, 5, 20},
	} {
		t.Run(name, func(t *testing.T) {
			withImport(t, c.files, func(t *testing.T, b *importBench) {
				b.in.InFlight, b.store.limit, b.want = c.inFlight, c.limit, c.want
				if c.want != 10*c.files || c.broken != "" {
					b.store.broken = func(path string) bool { return strings.Contains(path, b.in.Files[1].SHA256+c.broken) }
				}
				b.imports(1)
				assert.True(t, b.store.most == c.most && (c.asked == 0 || len(b.store.asked) == c.asked),
					"%d at once, asked for %v", b.store.most, b.store.asked)
				b.imports(1)
			})
		})
	}
}

// observed is a store behind a decorator, as that of a worker is: what imports is found below it.
type observed struct{ vectors.Store }

func (o observed) Unwrap() vectors.Store { return o.Store }

func TestAStoreThatIsObservedImportsToo(t *testing.T) {
	b := newImport(t, 3)
	b.in.Vectors = observed{b.store}
	b.imports(1)
}

// A process may die between any two steps. The next one must end with each row once, and may begin again only where
// the collection was emptied and its state is unknown.
// Promises: 117.
func TestAnImportSurvivesACrashAtEachOfItsSavePoints(t *testing.T) {
	crash := errors.New("crash")
	for inFlight, least := range map[int]int{1: 7, 8: 4} { // reset, asked, jobs, those that ended, done
		saves := 0
		synctest.Test(t, func(t *testing.T) { // how many there are
			b := newImport(t, 2)
			b.in.InFlight = inFlight
			b.tamper.OnPut = func(key string) error {
				if key == b.in.State {
					saves++
				}
				return nil
			}
			stagetest.Ok(t, load.Import(t.Context(), b.in))
		})
		require.True(t, saves >= least, "%d in flight: only %d saves", inFlight, saves)
		for n := range saves {
			for _, after := range []bool{false, true} {
				t.Run(fmt.Sprintf("%d in flight, save %d, written: %v", inFlight, n, after), func(t *testing.T) {
					withImport(t, 2, func(t *testing.T, b *importBench) {
						b.in.InFlight = inFlight
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
						require.ErrorIs(t, load.Import(t.Context(), b.in), crash)
						stagetest.Ok(t, load.Import(t.Context(), b.in))
						rounds := 1
						if n == 1 && !after { // the one after it was emptied
							rounds = 2
						}
						b.check(rounds)
					})
				})
			}
		}
	}
}

// Whether a call that failed was taken, will be taken, or never arrived: its file alone is repeated, if at all.
// Promises: 117.
func TestAnImportWhoseAnswerWasLost(t *testing.T) {
	down := fault.StoreDown.At("import", "c")
	for name, c := range map[string]struct{ taken, late bool }{
		"but was taken is found again":                     {true, false},
		"and was not taken is repeated":                    {false, false},
		"and is taken after it was given up finds nothing": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			withImport(t, 3, func(t *testing.T, b *importBench) {
				var late func()
				calls := 0
				b.store.onImport = func(_ string, taken func()) (bool, error) {
					calls++
					switch {
					case calls == 2 && c.late:
						path := b.store.last
						late = func() { b.store.jobs["late"] = &job{path: path} }
						return true, down
					case calls == 2:
						if c.taken {
							taken()
						}
						return true, down
					case calls == 3 && late != nil: // the store comes to it when its file was asked for again
						late()
					}
					return false, nil
				}
				err := load.Import(t.Context(), b.in)
				if c.taken && !c.late { // found at once
					stagetest.Ok(t, err)
				} else if err != nil && !errors.Is(err, down) {
					t.Fatalf("got %v", err)
				}
				stagetest.Ok(t, load.Import(t.Context(), b.in))
				for name, j := range b.store.jobs { // jobs that no state names end too
					for !j.done {
						stagetest.Must(b.store.ImportState(t.Context(), name))
					}
				}
				b.check(1)
			})
		})
	}
}

func TestAStoreThatRefusesEverythingIsLeftToTheCallerAndGoesOn(t *testing.T) {
	withImport(t, 2, func(t *testing.T, b *importBench) {
		refused := fault.StoreDown.At("import", "c").Because("rate limit exceeded")
		up := false
		b.store.onImport = func(string, func()) (bool, error) { return !up, refused }
		for range 10 {
			require.ErrorIs(t, load.Import(t.Context(), b.in), refused)
		}
		up = true
		b.imports(1)
	})
}

// A server that does not tell what a job reads may have taken the file: only an empty collection is certain then.
func TestAJobThatMayBeOfALostCallBeginsAgain(t *testing.T) {
	withImport(t, 2, func(t *testing.T, b *importBench) {
		b.store.silent = true
		lost := false
		b.store.onImport = func(_ string, taken func()) (bool, error) {
			if lost {
				return false, nil
			}
			lost = true
			taken()
			return true, fault.StoreDown.At("import", "c")
		}
		b.imports(2)
	})
}

// An attempt that stood still while another one did all must not ask again for what that one has asked for.
// Promises: 117.
func TestAnAttemptThatWasFrozenDoublesNothing(t *testing.T) {
	withImport(t, 3, func(t *testing.T, b *importBench) {
		frozen := false
		b.in.Guard = func(context.Context) error {
			if len(b.store.jobs) == 1 && !frozen {
				frozen = true
				stagetest.Ok(t, load.Import(t.Context(), b.in))
			}
			return nil
		}
		musttest.Fail(t, load.Import(t.Context(), b.in), fault.StoreDown)
		b.check(1)
	})
}

func TestRowsThatDoNotAddUpBeginAgain(t *testing.T) {
	withImport(t, 2, func(t *testing.T, b *importBench) {
		doubled := false
		b.store.onImport = func(_ string, taken func()) (bool, error) {
			if !doubled { // another program's row
				doubled = true
				b.store.rows = append(b.store.rows, "stray")
			}
			return false, nil
		}
		b.imports(2)
	})
}

func TestAStoreThatForgotAJobIsJudgedByItsCount(t *testing.T) {
	withImport(t, 1, func(t *testing.T, b *importBench) {
		b.store.onImport = func(path string, _ func()) (bool, error) {
			raw, _, err := blob.Read(t.Context(), b.staging, path)
			stagetest.Ok(t, err)
			for _, row := range stagetest.Must(parquet.Read[stage.VectorRow](bytes.NewReader(raw), int64(len(raw)))) {
				b.store.rows = append(b.store.rows, row.Key)
			}
			return true, nil
		}
		b.imports(1)
	})
}

func TestAnImportStopsWhenItIsTold(t *testing.T) {
	withImport(t, 1, func(t *testing.T, b *importBench) {
		b.store.polls = 1 << 30
		ctx, cancel := context.WithCancelCause(t.Context())
		paused := fault.Paused.At("import", "c")
		looks := 0
		b.in.OnProgress = func(core.Progress) {
			if looks++; looks == 3 {
				cancel(paused)
			}
		}
		assert.ErrorIs(t, load.Import(ctx, b.in), paused)
		b.store.polls = 0
		for _, j := range b.store.jobs {
			j.left = 0
		}
		b.in.OnProgress = nil
		b.imports(1)
	})
}

func TestAStoreThatCannotImportIsToldSo(t *testing.T) {
	b := newImport(t, 1)
	b.in.Vectors = fullVectors{}
	musttest.Fail(t, load.Import(t.Context(), b.in), fault.Internal)
}

// A store that never takes one file, though it answers and has nothing else to do, costs that file its import alone.
func TestAFileThatIsRefusedForEverIsLeftToVerify(t *testing.T) {
	withImport(t, 3, func(t *testing.T, b *importBench) {
		bad := b.in.Files[1].SHA256
		calls := 0
		b.store.onImport = func(path string, _ func()) (bool, error) {
			if !strings.Contains(path, bad) {
				return false, nil
			}
			calls++
			return true, fault.StoreDown.At("import", path).Because("file size exceeds the limit")
		}
		attempts := 1
		for ; load.Import(t.Context(), b.in) != nil; attempts++ {
			require.True(t, attempts != 50, "no end after %d attempts", attempts)
		}
		want := b.in.Files[0].Rows + b.in.Files[2].Rows
		if got := int64(len(b.store.rows)); got != want || attempts < 3 || calls < attempts-1 {
			t.Errorf("%d rows, want %d, after %d attempts and %d calls", got, want, attempts, calls)
		}
	})
}

// What a person has to mend is not passed over.
func TestARightThatIsMissingIsWaitedFor(t *testing.T) {
	withImport(t, 2, func(t *testing.T, b *importBench) {
		denied := true
		b.store.onImport = func(path string, _ func()) (bool, error) {
			if denied {
				return true, fault.StoreDenied.At("import", path).Because("no privilege")
			}
			return false, nil
		}
		for range 20 {
			musttest.Fail(t, load.Import(t.Context(), b.in), fault.StoreDenied)
		}
		denied = false
		err := load.Import(t.Context(), b.in)
		assert.True(t, err == nil && len(b.store.rows) == b.want, "%d rows of %d, %v", len(b.store.rows), b.want, err)
	})
}

// slowDrop does something before a collection is dropped.
type slowDrop struct {
	*importer
	before func()
}

func (s *slowDrop) Drop(ctx context.Context, collection string) error {
	if before := s.before; before != nil {
		s.before = nil
		before()
	}
	return s.importer.Drop(ctx, collection)
}

func (s *slowDrop) Unwrap() vectors.Store { return s.importer }

func TestAnAttemptThatEmptiesAFilledCollectionSaysSo(t *testing.T) {
	withImport(t, 3, func(t *testing.T, b *importBench) {
		frozen := b.in
		frozen.Vectors = &slowDrop{b.store, func() {
			err := load.Import(t.Context(), b.in)
			assert.True(t, err == nil && len(b.store.rows) == b.want, "%d rows, %v", len(b.store.rows), err)
		}}
		musttest.Fail(t, load.Import(t.Context(), frozen), fault.StoreDown)
		err := load.Import(t.Context(), b.in)
		assert.True(t, err == nil && len(b.store.rows) == b.want, "%d rows of %d, %v", len(b.store.rows), b.want, err)
	})
}

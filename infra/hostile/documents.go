package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// report of a run. An input that ends the process that reads it, as it would end a worker, is a crash; one that ends
// only the box that it is parsed in is not.
type report struct {
	Rows   []row `json:"rows"`
	Reader int64 `json:"largest_reader_peak_bytes"` // of the processes that read as a worker does
	Boxed  int64 `json:"largest_box_peak_bytes"`    // of the processes below them
}

// row counts the inputs of one kind, or of one pill.
type row struct {
	Name    string             `json:"name"`
	Inputs  int                `json:"inputs"`
	Read    int                `json:"read"`
	Refused map[fault.Code]int `json:"refused"` // without those over a limit
	Over    int                `json:"over_a_limit"`
	Boxed   int                `json:"stopped_in_the_box"` // crashed, out of memory or out of time, in there
	Crashed int                `json:"crashed"`
	Hung    int                `json:"hung"`
	Slowest float64            `json:"slowest_seconds"`
	Harmful []string           `json:"harmful"` // numbers of inputs, or files that hold them; slow ones, too
}

func (r *row) add(v verdict) {
	r.Inputs++
	r.Slowest = max(r.Slowest, v.Seconds)
	switch {
	case v.Crashed:
		r.Crashed++
	case v.Hung:
		r.Hung++
	case v.Code == "":
		r.Read++
	case v.Code == fault.TooLarge:
		r.Over++
	case v.Code == fault.ParseCrashed, v.Code == fault.ParseMemory, v.Code == fault.ParseTimeout,
		v.Code == fault.Quarantined:
		r.Boxed++
		r.Refused[v.Code]++
	default:
		r.Refused[v.Code]++
	}
}

func (r report) harm() (count int) {
	for _, row := range r.Rows {
		count += row.Crashed + row.Hung
	}
	return count
}

func (r report) print(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	tell := func(format string, values ...any) { _, _ = fmt.Fprintf(table, format, values...) } // Flush tells errors
	tell("what\tinputs\tread\trefused\tover a limit\tstopped in the box\tcrashed\thung\tslowest s\tcodes\n")
	for _, row := range r.Rows {
		refused, codes := 0, []string{}
		for code, count := range row.Refused {
			refused += count
			codes = append(codes, fmt.Sprintf("%s %d", code, count))
		}
		slices.Sort(codes)
		tell("%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%.1f\t%s\n",
			row.Name, row.Inputs, row.Read, refused-row.Boxed, row.Over, row.Boxed, row.Crashed, row.Hung,
			row.Slowest, strings.Join(codes, ", "))
		for _, harmful := range row.Harmful {
			tell("  look at: %s\n", harmful)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "peak resident memory: a reader %d MiB, a box %d MiB\n", r.Reader>>20, r.Boxed>>20)
	return err
}

// input is one to try; make is called by the worker that tries it.
type input struct {
	row    int
	number string
	name   string
	make   func() ([]byte, error)
}

// kindsRead names the kinds that can be damaged.
func kindsRead() string {
	var names []string
	for _, kind := range document.Kinds() {
		names = append(names, string(kind))
	}
	return strings.Join(names, ",")
}

// documents damages files of every kind.
func documents(ctx context.Context, s settings) (report, error) {
	files := documenttest.Samples()
	if s.dir != "" {
		var err error
		if files, err = filesOf(s.dir); err != nil {
			return report{}, err
		}
	}
	byKind := map[document.Kind][]string{}
	for name := range files {
		kind, _, _, ok := document.KindOf(name)
		if ok && (s.kinds == "" || slices.Contains(strings.Split(s.kinds, ","), string(kind))) {
			byKind[kind] = append(byKind[kind], name)
		}
	}
	if len(byKind) == 0 {
		return report{}, errors.New("there is no file of these kinds; known: " + kindsRead())
	}
	var out report
	var kinds []document.Kind
	for kind, names := range byKind {
		slices.Sort(names)
		kinds = append(kinds, kind)
	}
	slices.Sort(kinds)
	for _, kind := range kinds {
		out.Rows = append(out.Rows, row{Name: string(kind), Refused: map[fault.Code]int{}})
	}
	inputs := func(yield func(input) bool) {
		for number := range s.count {
			for i, kind := range kinds {
				names := byKind[kind]
				random := rand.New(rand.NewPCG(s.seed, uint64(number)<<8|uint64(i)))
				name, other := names[number%len(names)], names[random.IntN(len(names))]
				one := input{row: i, number: fmt.Sprintf("seed %d, number %d, %s", s.seed, number, name), name: name}
				one.make = func() ([]byte, error) { return damage(random, name, files[name], files[other]), nil }
				if !yield(one) {
					return
				}
			}
		}
	}
	err := try(ctx, s, &out, inputs)
	return out, err
}

// pills tries the crafted documents.
func pills(ctx context.Context, s settings) (report, error) {
	all := documenttest.Pills()
	if s.large {
		all = documenttest.LargePills()
	}
	all = append(all, documenttest.Pill{Name: "tireless.pdf", Make: func(out io.Writer) error {
		_, err := io.WriteString(out, documenttest.Tireless())
		return err
	}})
	var out report
	for _, pill := range all {
		out.Rows = append(out.Rows, row{Name: pill.Name, Refused: map[fault.Code]int{}})
	}
	err := try(ctx, s, &out, func(yield func(input) bool) {
		for i, pill := range all {
			fill := func() ([]byte, error) {
				var content bytes.Buffer
				err := pill.Make(&content)
				return content.Bytes(), err
			}
			if !yield(input{row: i, number: pill.Name, name: pill.Name, make: fill}) {
				return
			}
		}
	})
	return out, err
}

// try hands the inputs to the workers until all are done or ctx ends.
func try(ctx context.Context, s settings, out *report, inputs func(yield func(input) bool)) error {
	todo := make(chan input)
	var mu sync.Mutex
	var first error
	var workers sync.WaitGroup
	for range max(1, s.workers) {
		workers.Go(func() {
			p := &parser{limit: s.limit}
			for one := range todo {
				content, err := one.make()
				var v verdict
				if err == nil {
					v, err = p.parse(ctx, one.name, content)
				}
				mu.Lock()
				if err == nil {
					out.Rows[one.row].add(v)
					err = s.harmful(&out.Rows[one.row], one, v, content)
				}
				if err != nil && first == nil && ctx.Err() == nil {
					first = err
				}
				mu.Unlock()
			}
			p.stop()
			mu.Lock()
			out.Reader, out.Boxed = max(out.Reader, p.peak), max(out.Boxed, p.boxed)
			mu.Unlock()
		})
	}
	inputs(func(one input) bool {
		select {
		case todo <- one:
			return true
		case <-ctx.Done():
			return false
		}
	})
	close(todo)
	workers.Wait()
	return first
}

// harmful names an input that did harm, or took long, and keeps it where asked to.
func (s settings) harmful(r *row, one input, v verdict, content []byte) error {
	slow := s.slow > 0 && v.Seconds > s.slow.Seconds()
	if !v.Crashed && !v.Hung && !slow {
		return nil
	}
	told := one.number
	if slow {
		told += fmt.Sprintf(" (%.1f s)", v.Seconds)
	}
	if s.keep != "" {
		file := filepath.Join(s.keep, fmt.Sprintf("%d-%s", len(r.Harmful), filepath.Base(one.name)))
		if err := os.WriteFile(file, content, 0o600); err != nil {
			return err
		}
		told += ": " + file
	}
	r.Harmful = append(r.Harmful, told)
	return nil
}

// peakOf is the most memory that a process had, in bytes; 0 where the system does not tell.
func peakOf(pid string) int64 {
	status, err := os.ReadFile("/proc/" + pid + "/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kilobytes int64
	if _, err := fmt.Sscan(rest, &kilobytes); err != nil {
		return 0
	}
	return kilobytes << 10
}

// filesOf reads the files of a folder whose type is known, up to 64 MiB each.
func filesOf(dir string) (map[string][]byte, error) {
	files := map[string][]byte{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		if _, _, _, ok := document.KindOf(filepath.Base(path)); !ok {
			return nil
		}
		info, err := entry.Info()
		if err != nil || info.Size() > 64<<20 {
			return err
		}
		content, err := os.ReadFile(path)
		files[filepath.Base(path)] = content
		return err
	})
	return files, err
}

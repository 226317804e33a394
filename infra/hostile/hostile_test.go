package main

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/document"
	"github.com/unweaver/unweaver/internal/document/sandbox"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// The program re-executes itself, which is this test: as the child it reads, or does harm where it is told to.
func TestMain(m *testing.M) {
	sandbox.Child()
	if len(os.Args) > 1 && os.Args[1] == childName {
		var err error
		switch os.Getenv("HOSTILE_TEST") {
		case "die":
			os.Exit(3)
		case "hang":
			time.Sleep(time.Minute)
		default:
			err = child(os.Stdin, os.Stdout)
		}
		if err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func TestSamplesAreDamagedAndCounted(t *testing.T) {
	counts := func(seed string) report {
		var out bytes.Buffer
		harm, err := run(t.Context(), []string{"documents", "-n", "20", "-seed", seed, "-workers", "2", "-json"}, &out)
		if err != nil || harm != 0 {
			t.Fatalf("harm %d, %v", harm, err)
		}
		var got report
		if err := json.Unmarshal(out.Bytes(), &got); err != nil {
			t.Fatal(err)
		}
		return got
	}
	got, again := counts("1"), counts("1")
	if len(got.Rows) != 13 || got.Reader == 0 || got.Boxed == 0 {
		t.Errorf("%+v", got)
	}
	read, refused := 0, 0
	for i, row := range got.Rows {
		sum := row.Read + row.Over
		for _, count := range row.Refused {
			sum += count
		}
		if row.Inputs != 20 || sum != 20 || row.Read != again.Rows[i].Read {
			t.Errorf("%+v, again %+v", row, again.Rows[i])
		}
		read, refused = read+row.Read, refused+20-row.Read
	}
	if read < 20 || refused < 20 {
		t.Errorf("%d read, %d refused", read, refused)
	}
}

func TestHarmIsCountedNamedAndKept(t *testing.T) {
	for how, crashed := range map[string]bool{"die": true, "hang": false} {
		t.Setenv("HOSTILE_TEST", how)
		folder := t.TempDir()
		var out bytes.Buffer
		harm, err := run(t.Context(), []string{
			"documents", "-n", "2", "-kinds", "json", "-workers", "1", "-limit", "-1900ms", "-keep", folder,
		}, &out)
		kept, _ := os.ReadDir(folder)
		if err != nil || harm != 2 || len(kept) != 2 || strings.Count(out.String(), "look at: seed 1, number") != 2 {
			t.Errorf("%s: harm %d, kept %d, %v: %s", how, harm, len(kept), err, &out)
		}
		var r row
		r.Refused = map[fault.Code]int{}
		v := verdict{Crashed: crashed, Hung: !crashed}
		r.add(v)
		if (r.Crashed == 1) != crashed || (r.Hung == 1) == crashed {
			t.Errorf("%+v", r)
		}
	}
}

func TestEveryKindThatIsReadCanBeDamagedAndIsNamed(t *testing.T) {
	_, err := run(t.Context(), []string{"documents", "-kinds", "doc"}, &bytes.Buffer{})
	if err == nil {
		t.Fatal("doc was tried")
	}
	for name := range documenttest.Samples() {
		if kind, _, ok := document.TypeOf(name); !ok || !strings.Contains(err.Error(), string(kind)) {
			t.Errorf("%s of %s is not in %v", kind, name, err)
		}
	}
	for _, kind := range []string{"pptx", "xlsx", "epub", "eml", "rst"} {
		if !strings.Contains(err.Error(), kind) {
			t.Errorf("%s is not in %v", kind, err)
		}
	}
}

func TestWhatCannotBeTriedIsSaid(t *testing.T) {
	for _, args := range [][]string{nil, {"segments"}, {"documents", "-kinds", "doc"}, {"documents", "-dir", "/none"}} {
		if _, err := run(t.Context(), args, &bytes.Buffer{}); err == nil {
			t.Errorf("%v was tried", args)
		}
	}
}

package mapped_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/stream/mapped"
	"github.com/unweaver/unweaver/internal/testkit/mappedtest"
)

// fronts are strings of which neighbours are equal, begin alike, share nothing, are empty or long.
func fronts(count int) []string {
	out := make([]string, count)
	for i := range out {
		switch i % 7 {
		case 0:
			out[i] = fmt.Sprintf("name %d", i)
		case 1, 2:
			out[i] = out[i-1]
		case 3:
			out[i] = out[i-1] + strings.Repeat("x", i)
		case 4:
			out[i] = ""
		default:
			out[i] = fmt.Sprintf("%x", i*7919)
		}
	}
	return out
}

func frontTable(t testing.TB, strings []string) []byte {
	t.Helper()
	var writer mapped.FrontWriter
	defer writer.Close()
	var out bytes.Buffer
	file := mapped.NewWriter(&out, "test", 1, nil)
	for _, s := range strings {
		if err := writer.Add([]byte(s)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writer.Write(file, "strings", "groups"); err != nil {
		t.Fatal(err)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func openFront(t testing.TB, raw []byte, count int) (mapped.Front, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table")
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := mapped.Open(path, "test", 1)
	if err != nil {
		return mapped.Front{}, err
	}
	t.Cleanup(file.Close)
	return mapped.FrontOf(file, "strings", "groups", count), nil
}

func TestAFrontCodedTableGivesItsStringsInAnyOrder(t *testing.T) {
	for _, count := range []int{0, 1, 15, 16, 17, 32, 33, 500} {
		want := fronts(count)
		table, err := openFront(t, frontTable(t, want), count)
		if err != nil || !table.Fits() || table.Len() != count {
			t.Fatalf("%d strings: %v, fits: %v", count, err, table.Fits())
		}
		for i := range want {
			place := (i*31 + 7) % count
			if got := table.Append([]byte("before "), place); string(got) != "before "+want[place] {
				t.Fatalf("string %d of %d: %q, want %q", place, count, got, want[place])
			}
		}
		for _, other := range []int{count - 1, count + 1, count + 16} {
			if wrong, _ := openFront(t, frontTable(t, want), other); wrong.Fits() {
				t.Errorf("%d strings fit as %d", count, other)
			}
		}
	}
}

func TestAForgedFrontCodedTableIsRefusedOrReadWithoutAPanic(t *testing.T) {
	const count = 200
	whole, r := frontTable(t, fronts(count)), rand.New(rand.NewPCG(5, 6))
	fit := 0
	for range 600 {
		table, err := openFront(t, mappedtest.Forge(whole, r), count)
		if err != nil || !table.Fits() {
			continue
		}
		fit++
		for i := range count {
			if got := table.Append(nil, i); len(got) > len(whole)*count {
				t.Fatalf("string %d has %d bytes", i, len(got))
			}
		}
	}
	if fit == 0 || fit == 600 {
		t.Errorf("%d of 600 forgeries fit", fit)
	}
}

package mapped_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/stream/mapped"
)

// fronts returns strings of which neighbours are equal, begin the same, share nothing, are empty or long.
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
		require.NoError(t, writer.Add([]byte(s)))
	}
	require.NoError(t, writer.Write(file, "strings", "groups"))
	require.NoError(t, file.Close())
	return out.Bytes()
}

func openFront(t testing.TB, raw []byte, count int) (mapped.Front, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "table")
	require.NoError(t, os.WriteFile(path, raw, 0o600))
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
		require.True(t, err == nil && table.Len() == count, "%d strings: %v", count, err)
		for i := range want {
			place := (i*31 + 7) % count
			if got := table.Append([]byte("before "), place); string(got) != "before "+want[place] {
				t.Fatalf("string %d of %d: %q, want %q", place, count, got, want[place])
			}
		}
	}
}

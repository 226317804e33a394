package classrun_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/index/classrun"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
)

// names returns names of classes, in the order of their ids. Two classes have the same name, and some names are the
// beginning of others.
func names() []string {
	out := []string{"rhine", "rhine", "rhine falls", "rhi", "rhine\x00", ""}
	for n := range 40 {
		out = append(out, fmt.Sprint("class ", n*7%40))
	}
	return out
}

func row(n int) classrun.Row {
	return classrun.Row{
		ID: core.ID{byte(n), 1}, Vector: core.Sum("vector", fmt.Sprint(n)).Prefix(), Record: core.Sum(fmt.Sprint(n)),
	}
}

func whole(t *testing.T, spillAt int) []byte {
	writer := classrun.NewWriter()
	defer writer.Close()
	writer.SpillAt(spillAt)
	for n, name := range names() {
		require.NoError(t, writer.Add(row(n), name, "", strings.Fields(name)))
	}
	var out bytes.Buffer
	musttest.Get(writer.Write(&out, "v1", "en"))(t)
	return out.Bytes()
}

func TestARunSaysWhatWasGivenAndHasItsNamesInOrder(t *testing.T) {
	path := scratchtest.WriteFile(t, whole(t, 0))
	given := names()
	file := musttest.Get(classrun.Open(path, classrun.Expect{Analyser: "v1", Classes: len(given)}))(t)
	defer file.Close()
	var sorted []string
	for n, name := range given {
		want := row(n)
		got := string(file.AppendName(nil, slices.Index(file.NameRow, uint32(n))))
		assert.True(t, file.Rows[n] == want && got == name, "class %d: %+v %q", n, file.Rows[n], got)
		sorted = append(sorted, name+"\x00"+string(want.ID[:]))
	}
	slices.Sort(sorted)
	for place, want := range sorted {
		id := file.Rows[file.NameRow[place]].ID
		assert.Equal(t, want, string(file.AppendName(nil, place))+"\x00"+string(id[:]), "name %d", place)
	}
	river, _ := file.Words.Find("rhine")
	docs, _ := river.All()
	assert.True(t, slices.Equal(docs, []uint32{0, 1, 2}), "rhine is in %v", docs)
	for name, other := range map[string]struct {
		expect classrun.Expect
		code   fault.Code
	}{
		"analyser": {classrun.Expect{Analyser: "v2", Classes: len(given)}, fault.FormatUnknown},
		"classes":  {classrun.Expect{Analyser: "v1", Classes: 1}, fault.SegmentDamage},
	} {
		musttest.Code(t, musttest.Err(classrun.Open(path, other.expect)), other.code, "other %s", name)
	}
}

// A run without types has no section of them, so that its bytes are what they were before there were types.
func TestTypesOfRowsComeBack(t *testing.T) {
	for _, types := range []string{"--AB-A", "------"} {
		writer := classrun.NewWriter()
		defer writer.Close()
		for n, kind := range types {
			require.NoError(t, writer.Add(row(n), "x", strings.Trim(string(kind), "-"), nil))
		}
		var out bytes.Buffer
		expect := musttest.Get(writer.Write(&out, "v1", "en"))(t)
		file := musttest.Get(classrun.Open(scratchtest.WriteFile(t, out.Bytes()), expect))(t)
		defer file.Close()
		for n, kind := range types {
			assert.Equal(t, strings.Trim(string(kind), "-"), file.TypeOf(n), "row %d of %s", n, types)
		}
		assert.Equal(t, strings.Trim(types, "-") != "", bytes.Contains(out.Bytes(), []byte("type_row")), types)
	}
}

func TestHowMuchMemorySortsNamesIsNotInTheBytes(t *testing.T) {
	assert.True(t, bytes.Equal(whole(t, 0), whole(t, 100)), "they differ")
}

func TestWhatCannotBeNumberedOrOrderedIsRefused(t *testing.T) {
	for _, next := range []int{3, 4} {
		writer := classrun.NewWriter()
		defer writer.Close()
		require.NoError(t, writer.Add(row(4), "b", "", nil))
		assert.Error(t, writer.Add(row(next), "a", "", nil), "%d comes after 4", next)
		assert.Error(t, musttest.Err(writer.Write(&bytes.Buffer{}, "v1", "en")), "a run without what was refused")
	}
	writer := classrun.NewWriter()
	defer writer.Close()
	writer.SetLimit(1)
	require.NoError(t, writer.Add(row(1), "a", "", nil))
	musttest.Code(t, writer.Add(row(2), "b", "", nil), fault.TooLarge, "two classes of 1")
}

package answers_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/unweaver/unweaver/internal/artifact"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/methods/apr/answers"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/store/blob/dir"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
)

func storeOf(store blob.Store, most core.WriteBack) answers.Store {
	return answers.Store{Index: artifact.New(store, "docs"), Most: most}
}

func answer(question string, documents ...string) answers.Answer {
	out := answers.Answer{
		At: time.Unix(1, 0).UTC(), Question: question, Vector: answers.Vector{0.25, -1, 0},
		Triples: []answers.Triple{{
			Word:    answers.Word{Head: "Oslo", Relation: "lies in", Tail: "Norway"},
			Support: []answers.Support{{Word: answers.Word{Head: "Oslo", Relation: "is in", Tail: "Norway"}, Cosine: 0.9}},
		}},
	}
	for _, document := range documents {
		out.Sources = append(out.Sources, answers.Source{Document: document, Version: core.Sum(document)})
	}
	return out
}

func space(t *testing.T, owner, name string) answers.Space {
	t.Helper()
	out, err := answers.In(owner, name)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func all(answers.Answer) bool { return true }

func questions(t *testing.T, s answers.Store, in answers.Space) (out []string) {
	t.Helper()
	kept, err := s.Read(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range kept {
		out = append(out, one.Question)
	}
	return out
}

func TestTheOldestGoFirstByNumberAndByBytes(t *testing.T) {
	folder, err := dir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for name, store := range map[string]blob.Store{"memory": blobmemory.New(), "folder": folder} {
		s := storeOf(store, core.WriteBack{Answers: 5, Bytes: 1 << 20})
		in := space(t, "key a", "one")
		for i := range 1000 {
			if kept, err := s.Add(t.Context(), in, answer(fmt.Sprint("q", i)), all); err != nil || !kept {
				t.Fatal(name, kept, err)
			}
		}
		if got := questions(t, s, in); !slices.Equal(got, []string{"q995", "q996", "q997", "q998", "q999"}) {
			t.Errorf("%s: %v", name, got)
		}
		if _, err := s.Add(t.Context(), in, answer("Q997 "), all); err != nil {
			t.Fatal(err)
		}
		if got := questions(t, s, in); !slices.Equal(got, []string{"q995", "q996", "q998", "q999", "Q997 "}) {
			t.Errorf("%s: the same question again: %v", name, got)
		}
		s.Most.Bytes = 1000
		if _, err := s.Add(t.Context(), in, answer("last"), all); err != nil {
			t.Fatal(err)
		}
		listed, err := s.List(t.Context(), "key a")
		if err != nil || len(listed) != 1 || listed[0].Bytes > 1000 {
			t.Errorf("%s: %+v %v", name, listed, err)
		}
		if got := questions(t, s, in); len(got) == 0 || got[len(got)-1] != "last" || len(got) > 4 {
			t.Errorf("%s: by bytes: %v", name, got)
		}
		if kept, err := s.Add(t.Context(), in, answer(strings.Repeat("long ", 300)), all); kept || err != nil {
			t.Errorf("%s: one that has no room: %v %v", name, kept, err)
		}
	}
}

func TestWhatIsKeptIsReadAsItWas(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 5, Bytes: 1 << 20})
	in := space(t, "key a", "one")
	want := answer("q", "a.txt")
	if _, err := s.Add(t.Context(), in, want, all); err != nil {
		t.Fatal(err)
	}
	want.Origin = answers.Origin
	got, err := s.Read(t.Context(), in)
	if err != nil || fmt.Sprint(got) != fmt.Sprint([]answers.Answer{want}) {
		t.Errorf("%v %v, want %v", got, err, want)
	}
	if _, err := s.Add(t.Context(), in, answer("next"), func(answers.Answer) bool { return false }); err != nil {
		t.Fatal(err)
	}
	if got := questions(t, s, in); !slices.Equal(got, []string{"next"}) {
		t.Errorf("what is to go is there: %v", got)
	}
}

func TestWritersThatRaceLoseNothing(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 100, Bytes: 1 << 20})
	in := space(t, "key a", "one")
	var group sync.WaitGroup
	var mu sync.Mutex
	added := 0
	for i := range 20 {
		group.Go(func() {
			kept, err := s.Add(context.Background(), in, answer(fmt.Sprint("q", i)), all)
			mu.Lock()
			defer mu.Unlock()
			if kept {
				added++
			}
			if err != nil && !fault.Is(err, fault.GenBusy) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if got := questions(t, s, in); len(got) != added || added == 0 {
		t.Errorf("%d said to be kept, %d are", added, len(got))
	}
}

func TestOwnersDoNotMeetHoweverTheyAreWritten(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 5, Bytes: 1 << 20})
	if _, err := s.Add(t.Context(), space(t, "key AbCdEfGh", "one"), answer("secret"), all); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"key abcdefgh", "shared", "local", "token", "../key AbCdEfGh"} {
		if got := questions(t, s, space(t, other, "one")); len(got) != 0 {
			t.Errorf("%s reads %v", other, got)
		}
	}
	if got := questions(t, s, space(t, "key AbCdEfGh", "shared:one")); len(got) != 0 {
		t.Errorf("the shared one has %v", got)
	}
	for info, err := range s.Index.Store.List(t.Context(), "", "") {
		if err != nil || !strings.HasPrefix(info.Key, "docs/answers/") || strings.ToLower(info.Key) != info.Key {
			t.Errorf("%s %v", info.Key, err)
		}
	}
	if _, err := answers.In("", "one"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("nobody has a namespace: %v", err)
	}
	if _, err := answers.In("", "shared:one"); !fault.Is(err, fault.Forbidden) {
		t.Errorf("nobody shares a namespace: %v", err)
	}
}

func TestAPurgeTakesAnswersThatRestOnADocumentWhoseverTheyAre(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 5, Bytes: 1 << 20})
	mine, shared := space(t, "key a", "one"), space(t, "key b", "shared:one")
	for _, in := range []answers.Space{mine, shared} {
		for question, documents := range map[string][]string{"both": {"a.txt", "b.txt"}, "other": {"b.txt"}} {
			if _, err := s.Add(t.Context(), in, answer(question, documents...), all); err != nil {
				t.Fatal(err)
			}
		}
	}
	broken := s.Index.AnswersKey("shared", "broken.json")
	if _, err := blob.Write(t.Context(), s.Index.Store, broken, []byte("{"), blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	permitted := 0
	permit := func(context.Context) error { permitted++; return nil }
	rests := func(document string) bool { return document == "a.txt" }
	gone, err := answers.Purge(t.Context(), s.Index, rests, permit)
	if err != nil || gone != 3 || permitted != 3 { // the damaged one too: nobody can tell what it rests on
		t.Errorf("%d, permitted %d, %v", gone, permitted, err)
	}
	for _, in := range []answers.Space{mine, shared} {
		if got := questions(t, s, in); !slices.Equal(got, []string{"other"}) {
			t.Errorf("%s has %v", in.Name(), got)
		}
	}
	if gone, err := answers.Purge(t.Context(), s.Index, rests, permit); gone != 0 || err != nil || permitted != 3 {
		t.Errorf("again: %d, %v", gone, err)
	}
	if gone, err := answers.Drop(t.Context(), s.Index); gone != 2 || err != nil {
		t.Errorf("dropped %d, %v", gone, err)
	}
	if got := questions(t, s, mine); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

func TestAnswersOfANewerProgramAreNeitherReadNorOverwritten(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 5, Bytes: 1 << 20})
	in := space(t, "key a", "shared:one")
	key := s.Index.AnswersKey("shared", "one.json")
	if _, err := blob.Write(t.Context(), s.Index.Store, key, []byte(`{"format":2}`), blob.Cond{}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Read(t.Context(), in); !fault.Is(err, fault.FormatUnknown) {
		t.Errorf("read: %v", err)
	}
	if kept, err := s.Add(t.Context(), in, answer("q"), all); kept || !fault.Is(err, fault.FormatUnknown) {
		t.Errorf("written: %v %v", kept, err)
	}
}

func TestAnAnswerThatRestsOnTooManyDocumentsIsNotKept(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 5, Bytes: 1 << 20})
	in := space(t, "key a", "one")
	var documents []string
	for i := range answers.MostSources + 1 {
		documents = append(documents, fmt.Sprint(i))
	}
	if kept, err := s.Add(t.Context(), in, answer("all but one", documents[1:]...), all); !kept || err != nil {
		t.Errorf("%v %v", kept, err)
	}
	if kept, err := s.Add(t.Context(), in, answer("all", documents...), all); kept || err != nil {
		t.Errorf("%v %v", kept, err)
	}
}

func TestOfTooManyNamespacesTheOneWrittenLongestAgoGoes(t *testing.T) {
	s := storeOf(blobmemory.New(), core.WriteBack{Answers: 5, Bytes: 1 << 20})
	theirs := space(t, "key b", "first")
	if _, err := s.Add(t.Context(), theirs, answer("q"), all); err != nil {
		t.Fatal(err)
	}
	for i := range answers.MostNames + 1 {
		if i == answers.MostNames { // the first is written again: the second is the oldest
			if _, err := s.Add(t.Context(), space(t, "key a", "n0"), answer("again"), all); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.Add(t.Context(), space(t, "key a", fmt.Sprint("n", i)), answer("q"), all); err != nil {
			t.Fatal(err)
		}
	}
	listed, err := s.List(t.Context(), "key a")
	if err != nil || len(listed) != answers.MostNames {
		t.Fatalf("%d %v", len(listed), err)
	}
	if len(questions(t, s, space(t, "key a", "n1"))) != 0 || len(questions(t, s, space(t, "key a", "n0"))) != 2 {
		t.Error("another one went than that written longest ago")
	}
	if len(questions(t, s, theirs)) != 1 {
		t.Error("one of another owner went")
	}
}

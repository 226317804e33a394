package factstage_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/ledger"
	"github.com/unweaver/unweaver/internal/methods/apr"
	format "github.com/unweaver/unweaver/internal/methods/apr/facts"
	"github.com/unweaver/unweaver/internal/methods/apr/factstage"
	"github.com/unweaver/unweaver/internal/methods/enrich"
	"github.com/unweaver/unweaver/internal/model"
	"github.com/unweaver/unweaver/internal/model/builtin"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/blobmemory"
	claims "github.com/unweaver/unweaver/internal/testkit/coordinationmemory"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/scratchtest"
	"github.com/unweaver/unweaver/internal/testkit/stagetest"
	"github.com/unweaver/unweaver/internal/text"
)

func corpusOf(documents int) []enrich.Chunk {
	var out []enrich.Chunk
	for d := range documents {
		for n := range 3 {
			content := fmt.Sprintf("Town%d lies in Land%d. River%d meets Town%d. ", d, n, d%3, d)
			key := fmt.Sprintf("doc-%03d", d)
			sum := core.Sum(key, content)
			chunk := enrich.Chunk{Document: key, Ordinal: n, Text: content}
			copy(chunk.ID[:], sum[:])
			out = append(out, chunk)
		}
	}
	return out
}

// says answers as a model that finds a triple in each sentence of three words or more.
func says(call model.Call) (model.Reply, error) {
	list := []map[string]any{}
	for i, sentence := range strings.Split(call.User, "\n") {
		words := strings.Fields(strings.TrimRight(sentence, " ."))[1:] // behind the number
		if len(words) < 3 {
			continue
		}
		list = append(list, map[string]any{"sentence": i, "head": words[0],
			"relation": strings.Join(words[1:len(words)-1], " "), "tail": words[len(words)-1]})
	}
	raw, err := json.Marshal(map[string]any{"triples": list})
	return model.Reply{Text: string(raw), Usage: model.Usage{Prompt: 10, Completion: 5}}, err
}

func maker(store blob.Store, chat model.Chat, embedder model.Embedder) factstage.In {
	return factstage.In{
		Language: text.LanguageOf("en"), Chat: chat, Ledger: ledger.New(store, claims.New()), Embedder: embedder,
		Fingerprint: core.Sum("embedder"), Segmenter: apr.DefaultSegmenter,
	}
}

func seal(t *testing.T, in factstage.In, chunks []enrich.Chunk) ([]byte, factstage.Counts) {
	var out bytes.Buffer
	counts := musttest.Get(in.Seal(t.Context(), scratchtest.Yield(chunks...), &out))(t)
	return out.Bytes(), counts
}

func TestNightsPayForWhatChangedAndGiveTheBytesOfABuildFromNothing(t *testing.T) {
	store := blobmemory.New()
	chat, embedder := &stagetest.Chat{Answer: says}, &stagetest.Embedder{Dim: 8}
	chunks := corpusOf(40)
	first, counts := seal(t, maker(store, chat, embedder), chunks)
	require.True(t, len(chat.Calls()) == 120 && counts.Chunks == 120 && counts.Triples == 240 && counts.Fallbacks == 0 &&
		counts.Runs != 0, "counts %+v", counts)
	paid := len(embedder.Requests())
	shuffled := append(slices.Clone(chunks[50:]), chunks[:60]...)
	slices.Reverse(shuffled)
	other, _ := seal(t, maker(store, chat, embedder), shuffled)
	assert.True(t, bytes.Equal(other, first), "chunks in another order, some twice, give other bytes")
	again, counts := seal(t, maker(store, chat, embedder), chunks)
	assert.True(t, bytes.Equal(again, first) && len(chat.Calls()) == 120 && len(embedder.Requests()) == paid,
		"made again: equal %v, %+v, %d requests for vectors", bytes.Equal(again, first), counts, len(embedder.Requests())-paid)
	changed := slices.Clone(chunks)
	changed[7].Text = "Town7 lies beside Lake7. "
	changed = slices.Delete(changed, 30, 33)
	night, _ := seal(t, maker(store, chat, embedder), changed)
	assert.Len(t, chat.Calls(), 121, "a night pays for one part")
	nothing, _ := seal(t, maker(blobmemory.New(), chat, embedder), changed)
	assert.True(t, bytes.Equal(night, nothing), "a night gives other bytes than a build from nothing")
	texts := map[string]int{}
	for _, request := range embedder.Requests()[:paid] {
		for _, one := range request {
			texts[one]++
		}
	}
	for one, times := range texts {
		assert.True(t, times <= 1, "the vector of %q was paid for %d times", one, times)
	}
}

func TestWhereverItIsKilledTheBytesAreTheSameAndNothingIsPaidForTwice(t *testing.T) {
	chunks := corpusOf(8)
	want, _ := seal(t, maker(blobmemory.New(), &stagetest.Chat{Answer: says}, &stagetest.Embedder{Dim: 8}), chunks)
	killed := errors.New("killed")
	for after := range int64(30) {
		memory := blobmemory.New()
		var puts atomic.Int64
		chat, embedder := &stagetest.Chat{Answer: says}, &stagetest.Embedder{Dim: 8}
		store := &stagetest.Tampered{Store: memory, AfterPut: func(string) error {
			if puts.Add(1) > after {
				return fault.Internal.At("put", "an object").Because(killed)
			}
			return nil
		}}
		err := maker(store, chat, embedder).Pay(t.Context(), scratchtest.Yield(chunks...))
		require.Error(t, err, "%d writes and no death: the test says nothing", after)
		stored := len(chat.Calls())
		for _, part := range [][]enrich.Chunk{chunks[12:], chunks[:12]} {
			require.NoError(t, maker(memory, chat, embedder).Pay(t.Context(), scratchtest.Yield(part...)))
		}
		calls, requests := len(chat.Calls()), len(embedder.Requests())
		assert.True(t, calls <= stored+24, "%d calls after the death at write %d", calls-stored, after)
		got, _ := seal(t, maker(memory, chat, embedder), chunks)
		require.True(t, bytes.Equal(got, want), "killed at write %d: other bytes", after)
		assert.True(t, len(chat.Calls()) == calls && len(embedder.Requests()) == requests, "paid again")
	}
}

func TestAnswersOfNoUseAreFoundByRuleAndRemembered(t *testing.T) {
	store := blobmemory.New()
	chat := &stagetest.Chat{Answer: stagetest.Says("I would rather not.")}
	chunks := corpusOf(2)
	first, counts := seal(t, maker(store, chat, &stagetest.Embedder{Dim: 8}), chunks)
	assert.True(t, counts.Fallbacks == 6 && counts.Triples != 0 && len(chat.Calls()) == 12,
		"counts %+v, %d calls", counts, len(chat.Calls()))
	rules, _ := seal(t, maker(blobmemory.New(), builtin.Chat{}, &stagetest.Embedder{Dim: 8, Free: true}), chunks)
	file, byRule := open(t, first), open(t, rules)
	assert.True(t, bytes.Equal(file.Book.Marshal(), byRule.Book.Marshal()),
		"what was found by rule is not what the rules find")
	_, counts = seal(t, maker(store, chat, &stagetest.Embedder{Dim: 8}), chunks)
	assert.True(t, len(chat.Calls()) == 12, "asked again: %+v", counts)
}

func open(t *testing.T, content []byte) *format.File {
	path := scratchtest.WriteFile(t, content)
	file := musttest.Get(format.Open(path, format.Of{}))(t)
	t.Cleanup(file.Close)
	return file
}

func TestEveryEdgeNamesItsChunkAndSentence(t *testing.T) {
	chunks := corpusOf(5)
	chat := &stagetest.Chat{Answer: says}
	content, _ := seal(t, maker(blobmemory.New(), chat, &stagetest.Embedder{Dim: 8}), chunks)
	file, texts := open(t, content), map[string]string{}
	for _, chunk := range chunks {
		texts[string(chunk.ID[:])] = chunk.Text
	}
	for edge, sources := range file.Book.Sources {
		for _, source := range sources {
			sentences := text.LanguageOf("en").Sentences(texts[source.Chunk])
			assert.True(t, source.Sentence < len(sentences) &&
				strings.TrimRight(sentences[source.Sentence], " .") == file.Book.Text(uint32(edge)),
				"%q is not sentence %d of %q", file.Book.Text(uint32(edge)), source.Sentence, texts[source.Chunk])
		}
	}
	assert.Len(t, file.Keys, len(chat.Calls()), "keys of paid parts")
	empty, counts := seal(t, maker(blobmemory.New(), &stagetest.Chat{Answer: says}, &stagetest.Embedder{Dim: 8}), nil)
	assert.True(t, open(t, empty).Book.Runs == nil && counts == (factstage.Counts{}), "nothing said: %+v", counts)
}

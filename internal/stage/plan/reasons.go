package plan

import (
	"reflect"
	"slices"
	"strings"

	"github.com/unweaver/unweaver/internal/core"
)

// Made names the versions of what made a generation.
type Made = core.Made

// SpecChanges gives a reason for every part of the configuration that a generation is computed from and that is not the
// parent's: "config: chunking". It names what Spec.ConfigDigest covers, so that there is one exactly when the digests
// differ.
func SpecChanges(parent, now core.Spec) []string {
	type embedding struct {
		provider, model, classes string
		dimension, maxInput      int
	}
	embeds := func(s core.Spec) embedding {
		e := s.Embedding
		return embedding{e.Provider, e.Model, e.Classes, e.Dimension, e.MaxInputTokens}
	}
	was, shortenedBy := parent.BuildChats()
	is, shortensBy := now.BuildChats()
	asked, asks := parent.Extraction.Request(), now.Extraction.Request()
	var reasons []string
	for _, part := range []struct {
		name string
		same bool
	}{
		{"corpus", parent.Corpus == now.Corpus},
		{"chunking", parent.Chunking == now.Chunking},
		{"documents", reflect.DeepEqual(parent.CoveredDocuments(), now.CoveredDocuments())},
		{"shortening", parent.Shortening == now.Shortening},
		{"parity", parent.Parity == now.Parity},
		{"language", parent.Retrieval.Language == now.Retrieval.Language},
		{"extraction", parent.ExtractionShare() == now.ExtractionShare()},
		{"language of descriptions", parent.WritingLanguage() == now.WritingLanguage()},
		{"types of entities", slices.Equal(asked.Types, asks.Types)},
		{"guidance of extraction", asked.Guidance == asks.Guidance},
		{"examples of extraction", asked.Examples == asks.Examples},
		{"chat model", was == is},
		{"shortening model", shortenedBy == shortensBy || was != is && shortenedBy == was && shortensBy == is},
		{"vision model", parent.ReadAs().Vision != now.ReadAs().Vision ||
			reflect.DeepEqual(parent.VisionBy(), now.VisionBy())},
		{"embedding", embeds(parent) == embeds(now)},
	} {
		if !part.same {
			reasons = append(reasons, "config: "+part.name)
		}
	}
	if parent.ReadAs().Attachments && !now.ReadAs().Attachments {
		reasons = append(reasons, core.AttachmentsOff)
	}
	if parent.ReadAs().Labels.IsOn() && !now.ReadAs().Labels.IsOn() {
		reasons = append(reasons, core.LabelsOff)
	}
	return reasons
}

// AnswerChanges gives a reason for another style of answers, and for each role of queries that has another model now. A
// query is answered with the specification of its generation, so one is published that differs in nothing else.
func AnswerChanges(parent, now core.Spec) []string {
	asked := func(s core.Spec, role string) (chat core.ChatModel, name string) {
		chat = s.ChatOf(role)
		chat.Mode, chat.Batch = "", core.BatchMode{} // questions are never sent in batches
		return chat, strings.TrimSpace(chat.Provider + " " + chat.Model + " " + chat.BaseURL)
	}
	var reasons []string
	if parent.Answer != now.Answer {
		reasons = append(reasons, "style of answers")
	}
	for _, role := range []string{core.RoleAnswer, core.RoleTriples} {
		was, wasName := asked(parent, role)
		is, isName := asked(now, role)
		switch {
		case wasName != isName:
			reasons = append(reasons, "model of "+role+": "+isName+", was "+wasName)
		case was != is && is.Provider == "openai": // no other has a key, a price or limits
			reasons = append(reasons, "settings of the model of "+role)
		}
	}
	return reasons
}

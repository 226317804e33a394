package pipeline_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/testkit/documenttest"
)

// Attachments are documents of their own: what changes, goes or cannot be read for a while is that attachment, and each
// night comes to what a build from nothing comes to.
func TestNightsOfAttachmentsComeToWhatABuildFromNothingComesTo(t *testing.T) {
	file := func(name, words string) documenttest.Part {
		return documenttest.Part{Name: name, Content: "# About " + name + "\n\nThe barge " + words + " carried rye to Tolmin.\n"}
	}
	a, b, c := file("a.md", "Alma"), file("b.md", "Berit"), file("b.md", "Clara")
	s := newSite(t, sample(30))
	s.spec.Documents, s.spec.Gate.MaxRemoved = &core.Documents{Attachments: true}, 0.5
	s.spec.Failures = core.Failures{Share: 1}
	s.write(t, map[string]string{
		"m.eml!.md": "# Between\n\nA key between two others.",
		"m.eml":     documenttest.MailWith("A barge", a), "d.pdf": documenttest.PDFWith("Plan", a, b),
	})
	three, two := documenttest.MailWith("Three barges", a, b, c), documenttest.MailWith("Three barges", a, file("b.md", "Dora"))
	const first, second = "m%231.eml m%231.eml#a.md m%231.eml#b.md m%231.eml#b.md#2", "m%231.eml m%231.eml#a.md m%231.eml#b.md"
	for _, night := range []struct {
		name, object, content string // no content: the object goes
		held, stale           string
		diff                  core.Diff
	}{
		{"the first", "m#1.eml", three, first + " m.eml m.eml#a.md", "", core.Diff{Added: 40}},
		{"nothing", "", "", first + " m.eml m.eml#a.md", "", core.Diff{Same: 40}},
		{"one changes, one goes", "m#1.eml", two, second + " m.eml m.eml#a.md", "",
			core.Diff{Changed: 2, Removed: 1, Same: 37}},
		{"it cannot be read", "m#1.eml", "\x00", second + " m.eml m.eml#a.md", second, core.Diff{Same: 36, Unusable: 3}},
		{"nothing, unreadable still", "", "", second + " m.eml m.eml#a.md", second, core.Diff{Same: 36, Unusable: 3}},
		{"it can again", "m#1.eml", two, second + " m.eml m.eml#a.md", "", core.Diff{Changed: 3, Same: 36}},
		{"none is attached", "m#1.eml", documenttest.MailWith("Three barges"), "m%231.eml m.eml m.eml#a.md", "",
			core.Diff{Changed: 1, Removed: 2, Same: 36}},
		{"a mail goes", "m.eml", "", "m%231.eml", "", core.Diff{Removed: 2, Same: 35}},
	} {
		if night.object != "" {
			s.remove(t, night.object)
		}
		if night.content != "" {
			s.write(t, map[string]string{night.object: night.content})
		}
		out := s.night(t)
		var held, stale []string
		for key, document := range s.served(t, out.manifest) {
			if strings.HasPrefix(key, "m") && key != "m.eml!.md" {
				held = append(held, key)
			}
			if document.Stale {
				stale = append(stale, key)
			}
			if of := document.Meta["attached_to"]; of != core.ObjectKey(document.Object) && strings.Contains(key, "#") {
				t.Errorf("%s: %s is attached to %q", night.name, key, of)
			}
		}
		slices.Sort(held)
		slices.Sort(stale)
		if got := s.report(t).Diff; strings.Join(held, " ") != night.held || strings.Join(stale, " ") != night.stale ||
			got != night.diff || out.planned.Unchanged != (night.object == "") {
			t.Errorf("%s: %q, stale %q, %+v, unchanged %v", night.name, held, stale, got, out.planned.Unchanged)
		}
		if night.stale != "" {
			continue
		}
		fresh := newSite(t, nil)
		fresh.corpus, fresh.spec = s.corpus, s.spec
		want := fresh.night(t).manifest
		if out.manifest.Hashes.Content != want.Hashes.Content || out.manifest.Counts != want.Counts {
			t.Errorf("%s: %+v, from nothing %+v", night.name, out.manifest.Counts, want.Counts)
		}
	}
}

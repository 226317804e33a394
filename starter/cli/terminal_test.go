package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/internal/config"
	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/starter/cli"
)

// evil holds what a terminal acts on: a title, a cleared screen, C1 as one byte and as a character, a turned direction.
const evil = "x\x1b]0;PWNED\a\x1b[2J\u009b31m\x9d\u202egpj.exe\u2066\x7f\rend"

// evilControl answers every question with it.
type evilControl struct{ control.Control }

func (evilControl) ReadStatus(context.Context, string) (control.Status, error) {
	var status control.Status
	status.Index, status.Generation, status.Status = "docs", "g1", core.StatusFailed
	status.Reason, status.Detail = "internal", evil
	status.Problems = []core.Problem{{Code: "unreadable_document", Object: evil, Detail: evil}}
	return status, nil
}

func (evilControl) ReadOverlay(context.Context, string) (control.Overlaid, error) {
	return control.Overlaid{}, nil
}

func (evilControl) PauseRun(context.Context, string) (control.Stopped, error) {
	return control.Stopped{}, fault.EngineDown.At("pause", evil).Because(evil).Advise(evil)
}

func (evilControl) RunDoctor(context.Context, core.Spec) ([]control.Check, error) {
	return []control.Check{{Name: "corpus", Detail: evil, Hint: evil}}, nil
}

func TestControlCharactersNeverReachATerminal(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		chunk := map[string]any{"id": "00", "document": evil, "title": evil, "text": evil, "score": 1}
		_ = json.NewEncoder(w).Encode(map[string]any{
			"index": "docs", "generation": "g1", "chunks": []any{chunk}, "answer": map[string]any{"text": evil},
			"entities": []any{map[string]any{"id": "0", "name": evil}},
		})
	}))
	t.Cleanup(server.Close)
	connect := func(context.Context, *config.Config) (cli.Connection, error) {
		return cli.Connection{Control: evilControl{}, HTTP: server.URL}, nil
	}
	for _, args := range [][]string{
		{"status", "docs"}, {"pause", "docs"}, {"doctor"}, {"query", "who?", "--index", "docs"}, {"status", evil}, {evil},
		{"config", "show", "--config", evil},
	} {
		for _, format := range []string{"", "--json"} {
			var out, errs bytes.Buffer
			app := &cli.App{Out: &out, Err: &errs, Connect: connect}
			if format != "" {
				args = append(args[:len(args):len(args)], format)
			}
			app.Run(t.Context(), args)
			both := out.String() + errs.String()
			if bad := strings.IndexAny(both, "\x1b\a\x7f\r\u009b\u202e\u2066"); bad >= 0 || strings.Contains(both, "\x9d") {
				t.Errorf("%q prints %q", args, both)
			}
			if !strings.Contains(both, "PWNED") {
				t.Errorf("%q did not come to print it: %.200s", args, both)
			}
			if format != "" && out.Len() > 0 && !json.Valid(out.Bytes()) {
				t.Errorf("%q prints no JSON: %s", args, out.String())
			}
		}
	}
}

func TestOrdinaryTextIsPrintedAsItIs(t *testing.T) {
	var out bytes.Buffer
	writer := cli.Printable(&out)
	const text = "Größe\t日本語 🙂 naïve\n"
	for i := range len(text) { // also where a character comes in pieces
		if n, err := writer.Write([]byte(text[i : i+1])); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	}
	if out.String() != text {
		t.Errorf("%q", out.String())
	}
}

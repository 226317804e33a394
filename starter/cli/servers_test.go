package cli_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/unweaver/unweaver/starter/cli"
)

func TestStoresThatAreServersAreOpenedAndNothingIsStarted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, args := range [][]string{{"status", "docs"}, {"keys", "list"}} {
		var out, errs bytes.Buffer
		app := &cli.App{Out: &out, Err: &errs, Self: "/nonexistent/unweaver"}
		exit := app.Run(t.Context(), append(append(args, "--json"), servers...))
		var reported struct{ Code string }
		if err := json.Unmarshal(errs.Bytes(), &reported); err != nil || exit != cli.ExitFailed ||
			reported.Code != "store_unavailable" {
			t.Errorf("%v: exit %d, %s", args, exit, errs.String())
		}
	}
}

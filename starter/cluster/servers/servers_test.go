package servers_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/unweaver/unweaver/starter/cli"
	"github.com/unweaver/unweaver/starter/cluster/servers"
)

func TestStoresThatAreServersAreOpenedAndNothingIsStarted(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("AWS_ACCESS_KEY_ID", "key")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	for _, args := range [][]string{{"status", "docs"}, {"keys", "list"}} {
		var out, errs bytes.Buffer
		app := &cli.App{Out: &out, Err: &errs, Servers: servers.Clients(), Env: []string{
			"UNWEAVER_DEV_BIN=/nonexistent/dev", "UNWEAVER_CLUSTER_BIN=/nonexistent/cluster",
		}}
		exit := app.Run(t.Context(), append(args, "--json",
			"--set", "stores.artifacts=s3://bucket/prefix", "--set", "stores.s3.endpoint=http://127.0.0.1:1",
			"--set", "stores.classes=redis://127.0.0.1:1/0", "--set", "stores.vectors=milvus://127.0.0.1:1"))
		var told struct{ Code string }
		if err := json.Unmarshal(errs.Bytes(), &told); err != nil || exit != cli.ExitFailed ||
			told.Code != "store_unavailable" {
			t.Errorf("%v: exit %d, %s", args, exit, errs.String())
		}
	}
}

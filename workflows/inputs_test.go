package workflows_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/workflows"
)

// Anyone who reaches the engine may start workflows with any input: nothing is done for one that is none.
func TestAnInputThatIsNoneEndsBeforeAnythingIsDone(t *testing.T) {
	for name, b := range map[string]workflows.Build{
		"an index that leads out":     {Index: "../../../.."},
		"the ledger as index":         {Index: "ledger"},
		"a generation that leads out": {Generation: "../../x"},
		"a digest that is a path":     {Spec: "../../../../etc/passwd"},
		"a digest in capitals":        {Spec: strings.Repeat("A", 64)},
	} {
		f := newFake(10)
		if b.Index == "" {
			b.Index = "i"
		}
		if b.Generation == "" {
			b.Generation = "g"
		}
		env := environment(f, nil)
		env.ExecuteWorkflow(workflows.BuildIndexName, b)
		var out workflows.Outcome
		err := env.GetWorkflowResult(&out)
		assert.True(t, err == nil && out.Status == "failed" && out.Reason == "bad_config", "%s: %+v, %v", name, out, err)
		assert.True(t, len(f.ended) == 1 && f.ended[0].Detail != "" && len(f.calls) <= 1,
			"%s: %+v after %v", name, f.ended, f.calls)
	}
}

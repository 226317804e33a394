package bill

import (
	"runtime/debug"
	"testing"
)

// The embedded stack is a module of its own, which takes the product's from a folder.
func TestTheProductsOwnModuleIsOfItsVersionAndNoThirdPartys(t *testing.T) {
	info := &debug.BuildInfo{Deps: []*debug.Module{
		{Path: ownModule, Version: "v0.0.0", Replace: &debug.Module{Path: "../..", Version: "(devel)"}},
		{Path: "github.com/spf13/cobra", Version: "v1.10.2", Sum: "h1:x"},
		{Path: "example.com/old", Replace: &debug.Module{Path: "example.com/new", Version: "v2.0.0"}},
	}}
	got := libraries(info, "v9.9.9", func(string, string) []string { return nil })
	for i, want := range []string{
		"pkg:golang/" + ownModule + "@v9.9.9", "pkg:golang/github.com/spf13/cobra@v1.10.2",
		"pkg:golang/example.com/new@v2.0.0",
	} {
		if got[i].Ref != want {
			t.Errorf("%s, want %s", got[i].Ref, want)
		}
	}
	if text, err := ThirdParty(Document{Components: got[:1]}); err != nil || text != "" {
		t.Errorf("%q, %v", text, err)
	}
}

package bill_test

import (
	"strings"
	"testing"

	"github.com/unweaver/unweaver/infra/release/bill"
)

func TestTheLicencesOfWhatABinaryHoldsAreWrittenOnce(t *testing.T) {
	cobra := bill.Component{Name: "github.com/spf13/cobra", Version: "v1.10.2"}
	toml := bill.Component{Name: "github.com/BurntSushi/toml", Version: "v1.6.0"} // a capital in its path
	library := bill.Component{Name: "std", Version: "1.26"}
	one := bill.Document{Components: []bill.Component{toml, cobra, library}}
	text, err := bill.ThirdParty(one, one)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"github.com/spf13/cobra v1.10.2\n\n", "Apache License", "github.com/BurntSushi/toml v1.6.0\n\n", "TOML authors",
		"std 1.26\n\n", "Copyright 2009 The Go Authors",
	} {
		if strings.Count(text, want) != 1 {
			t.Errorf("%q stands there %d times", want, strings.Count(text, want))
		}
	}
	swapped := bill.Document{Components: []bill.Component{library, cobra, toml}}
	if again, err := bill.ThirdParty(swapped); err != nil || again != text {
		t.Errorf("%v: another order gives another text", err)
	}
	gone := bill.Document{Components: []bill.Component{{Name: "example.com/gone", Version: "v1.0.0"}}}
	if _, err := bill.ThirdParty(gone); err == nil || !strings.Contains(err.Error(), "example.com/gone") {
		t.Errorf("a module whose sources are not here: %v", err)
	}
}

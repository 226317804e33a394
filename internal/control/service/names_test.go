package service_test

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/unweaver/unweaver/internal/control"
	"github.com/unweaver/unweaver/internal/control/service"
	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/fault"
	"github.com/unweaver/unweaver/internal/store/blob"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
)

// No method of a control takes what could be a path in place of a name.
func TestANameThatCouldBeAPathIsRefusedByEveryMethod(t *testing.T) {
	for field, method := range reflect.ValueOf(control.Of(newBench(t).Service)).Elem().Fields() {
		if slices.Contains([]string{"ListIndexes", "ListSchedules", "RunDoctor", "ReadTransfer"}, field.Name) {
			continue // they name nothing, or look at what fits
		}
		for _, name := range []string{"../../etc", "docs/../x", "/etc", "docs//g1", "a/b/c/d", "docs\x00", "_access", "ledger"} {
			arguments := []reflect.Value{reflect.ValueOf(t.Context())}
			for i := 1; i < field.Type.NumIn(); i++ {
				argument := reflect.New(field.Type.In(i)).Elem()
				switch argument.Kind() {
				case reflect.String:
					argument.SetString(name)
				case reflect.Struct:
					for _, path := range []string{"Index", "Spec", "Name", "Run"} {
						at := argument.FieldByName(path)
						if at.IsValid() && at.Kind() == reflect.Struct {
							at = at.FieldByName("Index")
						}
						if at.IsValid() {
							at.SetString(name)
						}
					}
					if documents := argument.FieldByName("Documents"); documents.IsValid() {
						documents.Set(reflect.ValueOf([]string{"a.md"}))
					}
				}
				arguments = append(arguments, argument)
			}
			results := method.Call(arguments)
			err, _ := results[len(results)-1].Interface().(error)
			assert.True(t, fault.Is(err, fault.InvalidParam), "%s of %q: %v", field.Name, name, err)
		}
	}
}

// A night may begin as late as the longest of the last ones took.
func TestTheLongestOfTheLastRunsIsLookedUp(t *testing.T) {
	b := newBench(t)
	took, err := service.LongestRun(b.Service, t.Context(), "docs")
	assert.True(t, err == nil && took == 0, "%s, %v", took, err)
	nights := core.Nights{Nights: []core.Night{{Run: "docs/g1", Seconds: 90.2}, {Run: "docs/g2", Seconds: 60}}}
	musttest.Get(blob.WriteJSON(t.Context(), b.Stores.Artifacts, b.art.NightsKey(), nights, blob.Cond{}))(t)
	took, err = service.LongestRun(b.Service, t.Context(), "docs")
	assert.True(t, err == nil && took == 90*time.Second, "%s, %v", took, err)
}

package activities_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/unweaver/unweaver/activities"
)

// golden are the names that histories hold: a renamed activity breaks runs in progress.
const golden = `AimBackfill AuditPart BeginStage ChunkDocuments CollectGarbage EmbedPart EndAudit EndBackfill EndBuild EndRestore EnrichPart ExtractChunks ImportVectors LoadPart MeasureFleet NoteBackfill OpenAudit OpenBackfill OpenNight OpenRestore PayBackfill PayBatches PlanBuild
PublishBuild ReducePartition RepairPart RestorePart SealAudit SealChunks SealEnrichment SealExtraction SealRepair SealRestore SealShard SendNotice ShortenPartition SteerRun TakeLease VerifyPart WritePiece WriteSegments`

func TestRegisteredNamesAreTheGoldenOnes(t *testing.T) {
	var got []string
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		got = append(got, typ.Method(i).Name)
	}
	slices.Sort(got)
	if want := strings.Fields(golden); !slices.Equal(got, want) {
		t.Errorf("got %v\nwant %v", got, want)
	}
}

// What an activity returns is what the codec seals: one without a value could be answered by everybody.
func TestEveryActivityReturnsAValue(t *testing.T) {
	typ := reflect.TypeFor[*activities.Activities]()
	for i := range typ.NumMethod() {
		if of := typ.Method(i); of.Type.NumOut() != 2 || of.Type.Out(0).Kind() == reflect.Pointer {
			t.Errorf("%s returns no value, or one that may be nil", of.Name)
		}
	}
}

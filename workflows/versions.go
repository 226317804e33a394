package workflows

// Formats of a run, fixed by its starter in Shape.Format. A worker refuses a format that it does not know, so that a
// run started by a newer program waits for newer workers instead of being cut up wrongly.
//
// A new number is due when the same input must be cut or ordered in another way from now on: code asks for the number
// and goes both ways. That serves runs that have not begun. Where a run in progress must meet changed code (workers
// without deployment versions, docs/decisions/0007-worker-versions.md), the change of commands stands behind
// workflow.GetVersion with a change id of its own, named here with one line of reason, and a history recorded before
// the change joins testdata/histories.
const (
	FormatBuiltIn = 0 // sizes and windows were constants of the program; Shape.Filled has them
	FormatShape   = 1 // sizes and windows are inputs; stages pause by completing
	FormatOutage  = 2 // outages are waited for; a collect that fails is a warning
	FormatAlike   = 3 // a build may end after chunk, as what its parent is
	FormatFleet   = 4 // windows that the shape leaves open follow what the workers can do
	FormatQueues  = 5 // what fills a core goes by a task queue of its own: a fleet of older workers refuses the run
	FormatNamed   = 6 // files of units are named by their content, in their results; commands are those of 5
	FormatSplits  = 7 // generations of many segments; a build may begin again as it makes more than a part of one
	FormatPieces  = 8 // several splits or class runs are units of work each; extraction may be answered in batches first
)

// Changes of commands that a run in progress may meet.
const (
	changeAnew        = "begin-anew"   // a build whose parent turns out to be damaged begins again from plan
	changeLastShards  = "last-shards"  // the last shards of extraction share the window of all
	changeSealRestore = "seal-restore" // a restore ends with an activity that tells what is damaged
)

// LatestFormat is what DefaultShape gives.
const LatestFormat = FormatPieces

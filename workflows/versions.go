package workflows

// Format is the format of a run, fixed by its starter in Shape.Format. A worker refuses a run of any other format, so
// that a run started by another version of the program is not cut up wrongly.
//
// A new number is due when the same input must be cut or ordered in another way. Where a run in progress must meet
// changed code (workers without deployment versions, docs/decisions/README.md), the change of commands
// stands behind workflow.GetVersion with a separate change id, named here with one line of reason, and a history
// recorded before the change joins testdata/histories.
const Format = 1

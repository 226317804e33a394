package workflows

import "go.temporal.io/sdk/workflow"

// Audit compares part of the served generation of an index with what it was made of and with what the stores hold. It
// takes no lease and the commands of a build, and fails where something has drifted and was not mended.
func Audit(ctx workflow.Context, in Audited) (Outcome, error) {
	r := &run{Build: in.Build, endActivity: EndAudit}
	return r.executeParts(ctx, "audit", AuditPart, SealAudit, func(ctx workflow.Context, opened *Restored) error {
		in.Build = r.Build
		return r.runActivity(ctx, OpenAudit, 0, in, opened)
	})
}

package model_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/model"
)

// seer is a tally with foresight: its admissions hold as long as it says.
type seer struct {
	tally
	holds bool
	ahead int
}

func (s *seer) AdmitAhead(ctx context.Context, task string, prompt int64) (*model.Admission, error) {
	s.ahead++
	over, err := s.Begin(ctx, task, prompt)
	return &model.Admission{Holds: func() bool { return s.holds }, End: over}, err
}

func TestARequestIsSentByTheAdmissionItHas(t *testing.T) {
	usage := model.Usage{Prompt: 7}
	for name, c := range map[string]struct {
		holds bool
		begun int
		ends  []end
	}{
		"it holds":         {true, 2, []end{{usage, true}, {usage, true}}},
		"it holds no more": {false, 3, []end{{model.Usage{}, false}, {usage, true}, {usage, true}}},
	} {
		t.Run(name, func(t *testing.T) {
			meter := &seer{holds: c.holds}
			chat := model.MeterChat(&scripted{reply: model.Reply{Usage: usage}}, meter)
			admit := model.NewAdmitter(chat, model.Extract, "twelve", " bytes")
			admission, err := admit(t.Context())
			require.NoError(t, err)
			ctx := model.WithAdmission(t.Context(), admission)
			for range 2 { // of two requests the first is sent by it
				_, err := chat.Complete(ctx, model.Call{Task: model.Extract, User: "twelve bytes"})
				require.NoError(t, err)
			}
			admission.GiveBack() // too late to count
			assert.True(t, meter.ahead == 1 && len(meter.tasks) == c.begun && meter.prompt[0] == 3,
				"%d times ahead, begun %q of %v tokens, want %d", meter.ahead, meter.tasks, meter.prompt, c.begun)
			require.Len(t, meter.ends, len(c.ends), "ends %+v, want %+v", meter.ends, c.ends)
			for i, want := range c.ends {
				assert.Equal(t, want, meter.ends[i], "end %d", i)
			}
		})
	}
}

func TestNothingIsAdmittedAheadOfWhatCostsNothingOrByAMeterWithoutForesight(t *testing.T) {
	for name, chat := range map[string]model.Chat{
		"free":      model.MeterChat(&scripted{free: true}, &seer{}),
		"no meter":  &scripted{},
		"no seeing": model.MeterChat(&scripted{}, &tally{}),
	} {
		assert.True(t, model.NewAdmitter(chat, model.Extract, "a") == nil, "%s: is admitted ahead", name)
	}
	embedder := model.MeterEmbedder(&scripted{}, &seer{holds: true})
	assert.True(t, model.NewAdmitter(embedder, model.EmbedTask, "a") != nil,
		"embeddings that are paid for are not admitted ahead")
}

package pipeline_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/core"
	"github.com/unweaver/unweaver/internal/model/openai"
	"github.com/unweaver/unweaver/internal/retrieve"
	"github.com/unweaver/unweaver/internal/testkit/modeltest"
)

// written are texts with what a prompt says of their language.
var written = []struct{ name, text, wants string }{
	{"en", "The harbour of Port Alma was built by Carla Ruiz, and the ships that leave it carry salt to the lake.", ""},
	{"de", "Der Hafen von Port Alma wurde von Carla Ruiz gebaut, und die Schiffe, die ihn verlassen, bringen Salz.", "German"},
	{"es", "El puerto de Port Alma fue construido por Carla Ruiz, y los barcos que salen de él llevan sal al lago.", "Spanish"},
	{"fr", "Le port de Port Alma a été construit par Carla Ruiz, et les navires qui en partent portent du sel au lac.", "French"},
	{"pt", "O porto de Port Alma foi construído por Carla Ruiz, e os navios que saem dele não levam sal para o lago.", "Portuguese"},
	{"ja", "ポート・アルマの港はカルラ・ルイスによって建てられ、そこを出る船は湖へ塩を運んでいます。", "Japanese"},
	{"th", "ท่าเรือพอร์ตอัลมาสร้างโดยคาร์ลา รุยซ์ และเรือที่ออกจากท่าบรรทุกเกลือไปยังทะเลสาบ", "Thai"},
	{"zh", "阿尔玛港由卡拉·鲁伊斯建造，从那里出发的船只把盐运到湖边的城镇。", "Chinese"},
	{"ru", "Гавань Порт-Альма была построена Карлой Руис, и корабли, которые выходят из неё, везут соль.", "the language of the text"},
}

// Prompts name the language of each text, or the configured one, and an answer's that of its question. English is
// described by the prompt that names none, so what was paid for it stays.
func TestPromptsNameTheLanguageToWriteIn(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	systems := map[string]string{} // by task and text
	server := modeltest.New(modeltest.Options{Script: func(seen modeltest.Seen) modeltest.Injection {
		mu.Lock()
		defer mu.Unlock()
		for _, one := range written {
			if strings.Contains(seen.Text, one.text) {
				systems[seen.Task+" "+one.name] = seen.System
			}
		}
		return modeltest.Injection{}
	}})
	require.NoError(t, server.Listen("127.0.0.1:0"))
	t.Cleanup(server.Close)
	files := map[string]string{}
	for _, one := range written {
		files[one.name+".txt"] = one.text + "\n"
	}
	s := newSite(t, files)
	configured(t, s, "models.chat.provider=openai", "models.chat.model=m", "models.chat.base_url="+server.URL,
		"models.chat.api_key_env=")
	s.night(t)
	for _, one := range written {
		system, asked := systems["extract "+one.name]
		require.True(t, asked, one.name)
		assert.Equal(t, one.wants != "", strings.Contains(system, "Write in "), "%s: %s", one.name, system)
		assert.Contains(t, system, one.wants, one.name)
	}
	clear(systems)
	s.spec.Extraction = &core.Extraction{Share: 1, Language: "ko"}
	assert.InDelta(t, float64(len(written)), estimated(t, s.estimating()).Estimate.Extract.High, 0)
	s.spec.Extraction.Language = "de"
	assert.InDelta(t, float64(len(written)-1), estimated(t, s.estimating()).Estimate.Extract.High, 0)
	s.night(t)
	assert.Len(t, systems, len(written)-1, "what is German already is not paid for again")
	for asked, system := range systems {
		assert.Contains(t, system, "Write in German.", asked)
	}
	chat := openai.New(openai.Config{BaseURL: server.URL, Model: "m"})
	for _, one := range written {
		for style, wants := range map[string]bool{core.StyleShort: true, core.StyleFull: false, "": true} {
			_, err := retrieve.AnswerQuestion(t.Context(), chat, retrieve.FormOf(false, style), one.text+"?", "context",
				[]retrieve.Passage{{ID: "a"}}, []bool{true}, func() string { return "" })
			require.NoError(t, err)
			system := systems["answer "+one.name]
			assert.Equal(t, wants, strings.Contains(system, "Single Sentence"), system)
			assert.Contains(t, system, "Answer in the language of the question", one.name)
			if one.name != "ru" {
				assert.Contains(t, system, one.wants, one.name)
			}
		}
	}
}

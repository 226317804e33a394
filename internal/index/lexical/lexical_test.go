package lexical_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sort"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/index/lexical"
	"github.com/unweaver/unweaver/internal/testkit/musttest"
	"github.com/unweaver/unweaver/internal/testkit/searchtest"
	"github.com/unweaver/unweaver/internal/text"
)

func build(t testing.TB, docs [][]string) *lexical.Index {
	return lexical.New(searchtest.OpenSide(t, docs))
}

// zipf gives documents whose words are spread as in language.
func zipf(r *rand.Rand, docs, vocabulary, length int) [][]string {
	z := rand.NewZipf(r, 1.1, 2, uint64(vocabulary-1))
	out := make([][]string, docs)
	for i := range out {
		for range 1 + r.IntN(2*length) {
			out[i] = append(out[i], fmt.Sprint("t", z.Uint64()))
		}
	}
	return out
}

// inOrder returns the n best hits by the scores of all documents, each summed by itself.
func inOrder(index *lexical.Index, terms []string, docs, n int) []lexical.Hit {
	all := make([]uint32, docs)
	for i := range all {
		all[i] = uint32(i)
	}
	var hits []lexical.Hit
	for i, score := range index.ScoreRows(terms, all) {
		if score > 0 {
			hits = append(hits, lexical.Hit{Doc: uint32(i), Score: score})
		}
	}
	sort.SliceStable(hits, func(i, j int) bool { return hits[i].Score > hits[j].Score })
	return hits[:min(n, len(hits))]
}

func TestOverManyWindowsNoBitOfAScoreDiffersFromItsOwnSum(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 8))
	const documents = 40_000 // of several windows, in which lists and windows are left out
	docs := zipf(r, documents, 4000, 6)
	index := build(t, docs)
	for range 12 {
		terms, n := ask(r, docs, 40), 1+r.IntN(120)
		got, want := index.Search(terms, n, nil, nil), inOrder(index, terms, documents, n)
		require.True(t, slices.Equal(got, want), "%d best for %v:\n%v, want\n%v", n, terms, got, want)
	}
}

func TestWorkersBesideEachOtherFindWhatOneFinds(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 10))
	const documents = 60_000
	docs := make([][]string, documents) // with so many postings that several workers share them
	for i := range docs {
		for range 7 {
			docs[i] = append(docs[i], fmt.Sprint("t", r.IntN(9)))
		}
	}
	index := build(t, docs)
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(3))
	terms := []string{"t0", "t1", "t2", "t3", "t4", "t5", "t6", "t7", "t8"}
	for _, n := range []int{1, 100, 5000} { // most scores are equal
		want := inOrder(index, terms, documents, n)
		got := index.Search(terms, n, nil, nil)
		require.True(t, slices.Equal(got, want), "%d best: they differ", n)
		every := func(uint32) bool { return true } // one worker alone
		got = index.Search(terms, n, every, nil)
		require.True(t, slices.Equal(got, want), "%d best by one worker: they differ", n)
	}
}

// pageQuestions are those that line 1, 2, 3 … of testdata/pages answers, in other forms of its words.
var pageQuestions = map[string][]string{
	"de": {
		"Welches Werkzeug prüft automatisch, ob installierte Pakete Fehler haben?",
		"Was koordiniert Geräte und Programme, wie ein Dirigent sein Orchester?",
		"Welche Server speichern Kopien von heruntergeladenem Dokument zwischen?",
		"Warum sollen Administratoren nicht mit rootem Konto arbeiten, sondern mit Konten normaler Nutzer?",
		"Werden verschlüsselte Passwörter in Netzwerken durch ein Protokoll übertragen?",
		"Wie überprüft man verfügbare Netzwerkdienste eines Hosts?",
		"Welches Risiko für die Sicherheiten ist häufig, und welche Verfahrensweise bewährt?",
		"Von welchem Benutzer wird ein normaler Prozess gestartet?",
		"Mit welchem Programm greift man auf Freigaben eines Windows und auf Drucker zu?",
		"Wie suche ich Dateien in Verzeichnissen nach einem Kriterium?",
	},
	"fr": {
		"Quels outils automatisent les installations et suppressions de paquets ?",
		"Quels logiciels coordonnent les matériels comme des chefs d’orchestres ?",
		"Quels serveurs gardent les copies d'un document téléchargé ?",
		"Pourquoi les administrateurs ne travaillent-ils pas avec les comptes root ?",
		"Le mot de passe chiffré circule-t-il sur les réseaux ?",
		"Comment vérifier si un service réseau est disponible sur la machine supervisée ?",
		"Quel risque est le plus fréquent pour les sécurités et quelle bonne habitude aide ?",
		"Dans quels environnements s'exécute un processus normal ?",
		"Quel outil gère les protocoles SMB et une imprimante partagée ?",
		"Comment rechercher un fichier par des critères dans un répertoire ?",
	},
	"es": {
		"¿Qué herramientas automatizan las instalaciones y actualizaciones de paquetes aislados?",
		"¿Qué programas coordinan como directores de orquestas el hardware?",
		"¿Qué servidor guarda la copia de un documento descargado?",
		"¿Por qué los administradores no deben adquirir malos hábitos ni trabajar sin cuentas estándares?",
		"¿Se transmite la contraseña cifrada por las redes?",
		"¿Cómo se revisa si un servicio está disponible en un equipo monitorizado?",
		"¿Qué riesgo común existe y qué práctica es buena para la seguridad?",
		"¿En qué entornos se ejecuta un proceso normal del usuario?",
		"¿Qué herramienta administra protocolos SMB y una impresora compartida?",
		"¿Cómo buscar un archivo en los directorios con un criterio?",
	},
	"pt": {
		"Quais ferramentas automatizam instalações e remoções de pacotes isolados?",
		"Que programa coordena como os maestros de orquestras o hardware?",
		"Qual servidor guarda localmente a cópia de um documento baixado?",
		"Por que administradores não devem trabalhar com maus hábitos nem sem contas?",
		"A senha criptografada transita pelas redes?",
		"Como conferir se um serviço está disponível na máquina monitorada?",
		"Qual risco é comum e que prática é boa para a segurança?",
		"Em que ambientes se executa um processo normal do usuário?",
		"Que ferramenta lida com protocolos SMB e uma impressora compartilhada?",
		"Como procurar um arquivo nos diretórios por um critério?",
	},
}

// The words of real pages in four languages are found in other forms by the language, and not by plain words.
func TestPagesAreFoundByTheirLanguageBetterThanByPlainWords(t *testing.T) {
	for code, questions := range pageQuestions {
		raw := musttest.Get(os.ReadFile(filepath.Join("testdata", "pages", code+".txt")))(t)
		pages := strings.Split(strings.TrimSpace(string(raw)), "\n")
		reciprocal := func(language *text.Language) (sum float64) {
			var terms [][]string
			for _, page := range pages {
				terms = append(terms, language.Terms(page))
			}
			index := build(t, terms)
			for i, question := range questions {
				for rank, hit := range index.Search(language.Terms(question), len(pages), nil, nil) {
					if int(hit.Doc) == i {
						sum += 1 / float64(rank+1)
					}
				}
			}
			return sum / float64(len(questions))
		}
		plain, english, own := reciprocal(text.LanguageOf(text.Undetermined)), reciprocal(text.LanguageOf("en")), reciprocal(text.LanguageOf(code))
		assert.False(t, own < plain+0.1 || own < english || own < 0.85,
			"%s: %.3f, by plain words %.3f, as English %.3f", code, own, plain, english)
	}
}

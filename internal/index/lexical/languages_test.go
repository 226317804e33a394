package lexical_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/unweaver/unweaver/internal/text"
)

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
		raw, err := os.ReadFile(filepath.Join("testdata", "pages", code+".txt"))
		require.NoError(t, err)
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
		t.Logf("%s: mean reciprocal rank among %d pages: plain words %.3f, English %.3f, its own %.3f", code, len(pages),
			plain, english, own)
		assert.False(t, own < plain+0.1 || own < english || own < 0.85,
			"%s: %.3f, by plain words %.3f, as English %.3f", code, own, plain, english)
	}
}

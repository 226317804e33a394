package text

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestTheLanguageOfATextIsDetected(t *testing.T) {
	for want, texts := range map[string][]string{
		"en": {
			"The lease was signed by both parties in the spring, and it ends after ten years unless one of them objects.",
			"Table 4: hours of flight, engine type and serial number of the airplane. Total time 4,132 hours, 12 since overhaul.",
			"func main() { // open the file that the user named and print each line of it\n os.Open(name) }",
		},
		"de": {"Der Vertrag wurde im Frühjahr von beiden Seiten unterschrieben und endet nach zehn Jahren, wenn keine von ihnen widerspricht."},
		"es": {"El contrato fue firmado por las dos partes en la primavera y termina a los diez años si ninguna de ellas se opone."},
		"fr": {"Le contrat a été signé par les deux parties au printemps et prend fin après dix ans, sauf si l'une d'elles s'y oppose."},
		"pt": {"O contrato foi assinado pelas duas partes na primavera e termina ao fim de dez anos se nenhuma delas se opuser."},
		"ja": {"この契約は春に両者によって署名され、どちらも反対しなければ十年後に終わる。"},
		"zh": {"合同于春天由双方签署，如果任何一方不反对，合同将在十年后终止。"},
		"th": {"สัญญาลงนามโดยทั้งสองฝ่ายในฤดูใบไม้ผลิ และสิ้นสุดหลังจากสิบปี"},
		Undetermined: {
			"계약은 봄에 양측이 서명했으며 어느 쪽도 반대하지 않으면 십 년 후에 끝난다.",
			"Договор был подписан обеими сторонами весной и заканчивается через десять лет, если никто не возразит.",
			"Sözleşme ilkbaharda her iki tarafça imzalandı ve taraflardan biri itiraz etmezse on yıl sonra sona erer.",
			"Il contratto è stato firmato in primavera da entrambe le parti e finisce dopo dieci anni, se nessuna di esse si oppone.",
			"Het contract werd in het voorjaar door beide partijen getekend en eindigt na tien jaar, tenzij een van hen bezwaar maakt.",
			"Kontrakten blev underskrevet af begge parter i foråret og slutter efter ti år, hvis ingen af dem gør indsigelse.",
			"Avtalet undertecknades av båda parter under våren och upphör efter tio år om ingen av dem motsätter sig det.",
			"Umowa została podpisana przez obie strony wiosną i kończy się po dziesięciu latach, jeśli żadna z nich się nie sprzeciwi.",
			"Contractul a fost semnat de ambele părți în primăvară și se încheie după zece ani, dacă niciuna dintre ele nu se opune.",
			"Kontrak itu ditandatangani oleh kedua pihak pada musim semi dan berakhir setelah sepuluh tahun jika tidak ada yang keberatan.",
		},
		"": {"4.5 | 17 | 3,200", "Fig. 3", ""},
	} {
		for _, one := range texts {
			assert.Equal(t, want, detectLanguage(one), one)
		}
	}
}

func TestTheLanguageOfACorpusIsThatOfMostTexts(t *testing.T) {
	var none, some Detector
	none.Add("4.5 | 17")
	assert.Equal(t, "en", none.Language())
	for _, one := range []string{
		"Der Hund, der bellt, ist nicht der, der beißt.", "Das ist ein Satz, und er ist nicht der erste.",
		"This is the one that is not in the language of the others.", "Fig. 3",
	} {
		some.Add(one)
	}
	assert.Equal(t, "de", some.Language())
}

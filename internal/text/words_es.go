package text

// Spanish.

var spanishFunction = setOf(
	`el la los las lo un una unos unas de del al a y e o u pero sino ni que quien quienes cual cuales cuyo cuya cuyos cuyas
en por para con sin sobre entre hacia hasta desde durante según es son era eran fue fueron ser sido siendo ha han había
habían se su sus le les él ella ellos ellas este esta estos estas ese esa esos esas aquel aquella como si no más qué
quién quiénes cuál cuáles cómo cuándo cuánto cuánta cuántos cuántas dónde adónde porque también`,
)

var spanishStop = setOf(
	`yo tú nosotros vosotros usted ustedes me te nos os mi mis tu tus nuestro nuestra nuestros nuestras mí ti sí soy eres
somos será serán sería serían fuera sea sean estar está están estaba estaban estuvo estado he has hemos haber hubo hay
tiene tienen tenía tener puede pueden podía poder debe deben hace hacer hacen todo toda todos todas otro otra otros
otras mismo misma mismos mismas cada varios varias algún alguna algunos algunas ningún ninguna ninguno tal tales tan
tanto tanta tantos tantas muy mucho mucha muchos muchas poco poca pocos pocas menos ya aún todavía siempre nunca aquí
ahí allí entonces así después antes contra tras ante bajo cabe mediante aunque cuando donde mientras pues luego esto
eso aquello ello cualquier bien casi sólo solo`,
)

var spanishCommon = setOf(
	`abajo abril actualmente además adicionalmente agosto ahora algo alguien alrededor anteriormente anexo año años
apéndice aparte aproximadamente apenas arriba artículo asimismo autor autores ayer bastante capítulo casos caso cerca
ciento ciertamente ciertos ciertas cinco ciudad ciudades comúnmente conclusión concretamente conforme consecuentemente
contrariamente cuatro cuarto debido demasiado dentro depende desgraciadamente día días diciembre diez domingo dos
ejemplo ejemplos efectivamente encima enero enseguida especialmente excepto febrero figura finalmente frecuentemente
frente fuera generalmente gracias gran grande grandes habitualmente hoy históricamente igual igualmente incluso
inicialmente introducción inmediatamente jamás jueves julio junio juntos junto jamás lejos lunes mal mañana martes marzo
mayo mayor mayoría mejor menor mes meses miércoles mil millón millones mitad nada nadie naturalmente nombre normalmente
nota noviembre nueva nuevas nuevo nuevos nueve número obviamente ocho octubre ocasionalmente once originalmente página
país países parte partes particularmente peor pese persona personas posiblemente posteriormente precisamente primer
primera primeras primero primeros principalmente probablemente problema pronto próximo pueblo quizá quizás
recientemente respecto resultado resultados sábado salvo segunda segundo seguidamente seis semana semanas septiembre
setiembre sexto siete siglo siglos siguiente similarmente simplemente sin embargo tabla tampoco tarde temprano tercer
tercera tercero tiempo tipo total tres treinta última últimas último últimos únicamente veces vez viernes veinte
señor señora don doña`,
)

var spanishAbbreviations = setOf(`sr sra srta sres dr dra d d.ª prof ud uds etc ej p.ej fig núm pág págs vol art cap
aprox av avda ee.uu a.c d.c s.a ed eds gral cía`)

package text

// Portuguese, of Brazil and of Portugal.

var portugueseFunction = setOf(
	`o a os as um uma uns umas de do da dos das em no na nos nas por pelo pela pelos pelas para pra com sem sobre sob entre
até desde durante ao aos à às e ou mas nem que quem qual quais cujo cuja cujos cujas é era eram foi foram ser sido
sendo há se seu sua seus suas lhe lhes ele ela eles elas este esta estes estas esse essa esses essas isto isso aquele
aquela aqueles aquelas deste desta destes destas desse dessa desses dessas neste nesta nestes nestas nesse nessa num
numa como onde quando quanto quanta quantos quantas porque não mais também`,
)

var portugueseStop = setOf(
	`eu tu nós vós você vocês me te nos vos mim ti si meu minha meus minhas teu tua teus tuas nosso nossa nossos nossas sou
és somos será serão seria seriam fora seja sejam estar está estão estava estavam esteve tem têm tinha tinham ter teve
tido havia haver houve pode podem podia poder deve devem faz fazer fazem todo toda todos todas tudo outro outra outros
outras mesmo mesma mesmos mesmas cada vários várias algum alguma alguns algumas nenhum nenhuma tal tais tão tanto tanta
tantos tantas muito muita muitos muitas pouco pouca poucos poucas menos já ainda sempre nunca aqui aí ali lá então assim
depois antes contra após ante perante segundo embora enquanto pois logo aquilo qualquer quaisquer bem quase só apenas
dele dela deles delas nele nela neles nelas àquele àquela`,
)

var portugueseCommon = setOf(
	`abaixo abril acima adicionalmente agora agosto além algo alguém anexo ano anos anteriormente antigamente apêndice
apesar aproximadamente artigo atrás através atualmente actualmente autor autores bastante capítulo caso casos cem cerca
certamente cidade cidades cinco comumente conclusão conforme consequentemente contudo contrariamente dentro devido dez
dezembro dia dias diante diversos diversas dois domingo duas entretanto especialmente eventualmente exceto exemplo
exemplos fevereiro figura finalmente fora frequentemente geralmente graças grande grandes hoje historicamente igualmente
inclusive infelizmente inicialmente introdução janeiro jamais julho junho junto juntos juntamente longe mais mal março
maio maior maioria mal melhor menor mês meses mil milhão milhões metade mediante nada naturalmente ninguém nome
normalmente nota nova novas nove novembro novo novos número obviamente ocasionalmente oito onde ontem originalmente
outubro página país países parte partes particularmente perto pessoa pessoas pior porém portanto porventura
posteriormente possivelmente primeira primeiras primeiro primeiros principalmente provavelmente problema próximo quatro
quarta quarto quinta quinto quiçá raramente recentemente relativamente resultado resultados sábado salvo século séculos
segunda seguinte seis semana semanas semelhante senão sete setembro sexta sexto similarmente simplesmente sobretudo
somente tabela talvez tampouco tarde tempo terça terceira terceiro tipo todavia total três trinta última últimas último
últimos vez vezes vinte senhor senhora dona embora`,
)

var portugueseAbbreviations = setOf(`sr sra srta dr dra prof profa etc ex p.ex fig núm pág págs vol art cap aprox av
ltda s.a ed eds eng d cia a.c d.c`)

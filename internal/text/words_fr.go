package text

// French.

var frenchFunction = setOf(
	`le la les l un une des du de d au aux et ou mais donc or ni car que qu qui quoi dont où ce cet cette ces c se s sa son
ses leur leurs il elle ils elles on y en dans par pour sur sous avec sans entre vers chez depuis pendant est sont était
étaient été être a ont avait avaient fut furent sera seront ne n pas plus quel quelle quels quelles comment pourquoi
quand combien lequel laquelle lesquels lesquelles comme si à aussi`,
)

var frenchStop = setOf(
	`je j tu nous vous me m te t moi toi lui eux mon ma mes ton ta tes notre nos votre vos suis es sommes êtes serait
seraient soit soient étant ai as avons avez aura auront aurait auraient ayant eu eut eurent fait faire font peut peuvent
pouvait pourrait doit doivent devait devrait tout toute tous toutes autre autres même mêmes certain certaine certains
certaines chaque plusieurs quelque quelques aucun aucune tel telle tels telles très peu trop bien encore déjà toujours
jamais ici là alors ainsi après avant contre dès lors lorsque lorsqu puis puisque puisqu parce selon malgré outre hors
jusque jusqu afin cela ceci celui celle ceux celles non oui moins beaucoup presque voici voilà`,
)

var frenchCommon = setOf(
	`actuellement ailleurs année années ans an annexe appendice article auteur auteurs auparavant aucunement aujourd'hui
autant autour autrefois autrement avril bref cependant cent certes chapitre cinq conclusion concernant conformément
contrairement curieusement d'abord d'après davantage décembre dehors demain dernier dernière derniers dernières
désormais deux deuxième deuxièmement dimanche dix durant effectivement également enfin ensuite environ exemple exemples
exceptionnellement face février figure finalement fois généralement grâce grand grande grands grandes heureusement hier
historiquement huit introduction janvier jeudi jour jours juillet juin juste l'un lundi maintenant mai mardi mars
mercredi mille millier milliers million millions milliard milliards mois naturellement néanmoins neuf note nombre
nombreux nombreuses notamment nouveau nouvelle nouveaux nouvelles novembre octobre onze originellement page
parallèlement parfois parmi particulièrement partout pays personne personnes petit petite petits petites plutôt pourtant
premier première premiers premières premièrement près principalement probablement problème produit quant quatre question
récemment remarque résultat rien samedi seconde second semaine sept septembre seul seule seulement siècle siècles
situé située six soudain souvent suite suivant surtout tableau tandis tant tard tantôt tôt total toutefois trente trois
troisième vendredi vingt ville villes vraiment quoique bientôt contrairement malheureusement évidemment étant ça ceci
chacun chacune certains monsieur madame m mme mlle`,
)

var frenchAbbreviations = setOf(`m mm mme mmes mlle dr me st ste av apr env etc cf ex fig p pp vol n no éd art chap éds
hab tél bd av.j.-c j.-c av j c'est-à-d`)

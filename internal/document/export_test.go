package document

var OwnTitle = ownTitle

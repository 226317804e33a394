package main

import (
	"fmt"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/membership/static"
	_ "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	"go.temporal.io/server/temporal"
	"go.temporal.io/sdk/client"
)

func main() {
	fmt.Println(temporal.DefaultServices, config.Config{}, static.SingleLocalHost, sqliteschema.SetupSchema, client.Options{})
}

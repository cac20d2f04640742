// Package client is where the tests have oapi-codegen write a client of the OpenAPI document:
// a module of its own, with what such a client imports.
package client

import (
	_ "github.com/getkin/kin-openapi/openapi3"
	_ "github.com/labstack/echo/v4"
	_ "github.com/oapi-codegen/runtime"
)

//! The OpenAPI document, made from the routes and the wire types.

use axum::http::StatusCode;
use schemars::generate::SchemaSettings;
use schemars::{Schema, SchemaGenerator};
use serde_json::{Map, Value, json};
use vik_api::{PROBLEM_JSON, Problem};

use super::route::{ResponseBody, Route};
use super::routes::routes;

/// Returns the OpenAPI document of the HTTP API.
///
/// # Examples
///
/// ```
/// use vik_control::http::openapi;
///
/// let document = openapi();
/// assert!(document["paths"]["/api/v1/pause"]["post"].is_object());
/// ```
pub fn openapi() -> Value {
    let mut generator = SchemaSettings::draft2020_12()
        .with(|settings| settings.definitions_path = "/components/schemas".into())
        .into_generator();
    let mut paths = Map::new();
    let problem = generator.subschema_for::<Problem>();
    for route in routes() {
        let path = paths
            .entry(format!("/api/v1{}", route.path))
            .or_insert_with(|| json!({}));
        let method = route.method.as_str().to_ascii_lowercase();
        path[method] = operation(&route, &problem, &mut generator);
    }
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Vik",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "Read the state of a Vik daemon and control it. Within a version, the API only gains fields.",
            "license": { "name": "MIT OR Apache-2.0" },
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": generator.take_definitions(true),
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn operation(route: &Route, problem: &Schema, generator: &mut SchemaGenerator) -> Value {
    let mut parameters: Vec<Value> = Vec::new();
    if route.path.contains("{id}") {
        let description = match route.path.split('/').nth(1) {
            Some("issues") => "The id of the issue, percent-encoded",
            Some("sign-ins") => "The id of the sign-in",
            _ => "The id of the attempt",
        };
        parameters.push(json!({
            "name": "id", "in": "path", "required": true, "description": description,
            "schema": { "type": "string", "minLength": 1 },
        }));
    }
    if route.path.contains("{message}") {
        parameters.push(json!({
            "name": "message", "in": "path", "required": true, "description": "The id of the message",
            "schema": { "type": "string", "minLength": 1 },
        }));
    }
    if let Some(query) = route.query {
        parameters.extend(query_parameters(&query(generator), generator));
    }
    let media = |kind: &str, schema: Value| json!({ kind: { "schema": schema } });
    let mut responses = Map::new();
    let success = match &route.response {
        ResponseBody::Json(schema) | ResponseBody::Health(schema) => {
            media("application/json", schema(generator).into())
        }
        ResponseBody::Events(schema) => {
            // Adds the schema of each event's data to the components.
            schema(generator);
            media("text/event-stream", json!({ "type": "string" }))
        }
        ResponseBody::Text(kind) => media(kind, json!({ "type": "string" })),
    };
    if matches!(route.response, ResponseBody::Health(_)) {
        responses.insert(
            "503".to_owned(),
            json!({ "description": "It is not", "content": &success }),
        );
    }
    let done = match route.success {
        StatusCode::ACCEPTED => "Accepted",
        _ => "Done",
    };
    responses.insert(
        route.success.as_str().to_owned(),
        json!({ "description": done, "content": success }),
    );
    let problem_response = |description: &str| json!({ "description": description, "content": media(PROBLEM_JSON, problem.clone().into()) });
    responses.insert("401".to_owned(), problem_response("No token, or a wrong one"));
    if route.names_item {
        responses.insert("404".to_owned(), problem_response("Not found"));
    }
    responses.insert("default".to_owned(), problem_response("Refused or failed"));
    let mut operation = json!({
        "summary": route.summary,
        "operationId": operation_id(route),
        "parameters": parameters,
        "responses": responses,
    });
    if route.is_deprecated {
        operation["deprecated"] = json!(true);
    }
    if !route.needs_token {
        operation["security"] = json!([]);
    }
    if let Some(body) = route.body {
        operation["requestBody"] = json!({
            "required": true,
            "content": media("application/json", body(generator).into()),
        });
    }
    operation
}

/// Returns an operation id such as `get_sessions_id_events`.
fn operation_id(route: &Route) -> String {
    let path: String = route
        .path
        .chars()
        .filter(|c| !matches!(c, '{' | '}'))
        .map(|c| if c.is_ascii_alphanumeric() { c } else { '_' })
        .collect();
    format!("{}{path}", route.method.as_str().to_ascii_lowercase())
}

/// Converts the fields of a query to parameters.
fn query_parameters(query: &Schema, generator: &mut SchemaGenerator) -> Vec<Value> {
    let resolved = query
        .get("$ref")
        .and_then(Value::as_str)
        .and_then(|reference| reference.rsplit('/').next())
        .and_then(|name| generator.definitions().get(name).cloned())
        .unwrap_or_else(|| query.clone().into());
    let Some(properties) = resolved["properties"].as_object() else {
        return Vec::new();
    };
    properties
        .iter()
        .map(|(name, schema)| {
            json!({
                "name": name, "in": "query", "required": false,
                "description": schema["description"],
                "schema": without_null(schema),
            })
        })
        .collect()
}

/// Removes `null` from the schema of a query parameter: an absent parameter is left out.
fn without_null(schema: &Value) -> Value {
    let mut schema = schema.clone();
    if let Some(object) = schema.as_object_mut() {
        object.remove("description");
        if let Some(Value::Array(types)) = object.get("type") {
            let some = types.iter().find(|kind| *kind != "null").cloned();
            object.insert("type".to_owned(), some.unwrap_or(Value::Null));
        }
        if let Some(Value::Array(any)) = object.get("anyOf").cloned()
            && let Some(some) = any.into_iter().find(|schema| schema["type"] != "null")
        {
            return some;
        }
    }
    schema
}

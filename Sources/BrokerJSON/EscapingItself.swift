/// A destination of texts that escapes what clients and files contain, in its own form.
///
/// A log handler that writes JSON is one: a text that is quoted before it is in a JSON string is quoted twice.
package protocol EscapingItself {}

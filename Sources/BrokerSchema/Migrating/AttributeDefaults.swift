/// The default of an attribute of the wanted model as an SQL literal, by the indices of entity and attribute; nil without
/// a default.
package typealias AttributeDefaults = (_ entity: Int, _ attribute: Int) -> String?

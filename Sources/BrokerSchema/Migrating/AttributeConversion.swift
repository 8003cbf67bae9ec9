package import BrokerModel

/// Registers the conversion of an attribute's stored values to another type, and returns its number, the first argument of
/// ``conversionFunction``.
package typealias AttributeConversion = (_ old: Attribute, _ new: Attribute) -> Int

/// The SQL function that converts a stored value: the number of the conversion, and the value.
package let conversionFunction = "_broker_converted"

/// The events of a parser, in the order of the document.
package protocol XMLEvents: AnyObject {
    func begin(_ name: [UInt8], _ attributes: [XMLAttribute])
    func end()
    func text(_ bytes: UnsafeBufferPointer<UInt8>)
    /// A part of the document whose cost may exceed its length, or which reads other files.
    func refuse(_ construct: XMLConstruct)
    /// - Parameter code: the code of libxml2 (`xmlParserErrors`).
    func error(_ code: Int, _ message: String)
}

package enum XMLConstruct {
    /// `<!DOCTYPE`; its internal subset is not read yet.
    case documentType
    /// The declaration of an entity of that name.
    case entity(String)
    /// The declaration of a default for an attribute of that name, beyond the limits of ``XMLPushParser``.
    case attributeDefault(String)
    /// More than ``XMLPushParser/mostAttributes`` of an element.
    case attributes
    /// More different names than ``XMLPushParser/mostNames``.
    case names
}

/// An attribute of a tag, with its prefix, as written.
package struct XMLAttribute {
    package let name: [UInt8]
    package let value: [UInt8]
}

/// Lines and columns count from 1 (columns in bytes), offsets from 0.
package struct XMLPlace: Equatable {
    package let line: Int
    package let column: Int
    /// Nil in a text that is not UTF-8, where columns are characters.
    package let offset: Int?

    package static let start = XMLPlace(line: 1, column: 1, offset: 0)
}

import Broker
import Hummingbird

/// Answers with the HTTP status that an error of the broker means for the caller.
struct BrokerErrors<Context: RequestContext>: RouterMiddleware {
    func handle(
        _ request: Request, context: Context, next: (Request, Context) async throws -> Response
    ) async throws -> Response {
        do {
            return try await next(request, context)
        } catch let error as BrokerError {
            throw HTTPError(status(of: error), message: "\(error)")
        }
    }

    private func status(of error: BrokerError) -> HTTPResponse.Status {
        switch error.code {
        case .busy, .cannotConnect, .connectionLost, .draining, .closed: .serviceUnavailable
        case .storeFull, .storeUnavailable: .serviceUnavailable
        case .outcomeUnknown, .timedOut: .gatewayTimeout
        case .idConflict, .idInUse: .conflict
        case .tooLarge: .contentTooLarge
        case .invalidJSON, .invalidID: .badRequest
        // A fault of the records.
        case _ where error.fault?.path != nil: .unprocessableContent
        default: .internalServerError
        }
    }
}

"""Region trees and explicit circuits."""
